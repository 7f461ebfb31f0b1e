// SPDX-License-Identifier: Apache-2.0
// The functions of malloc: each counts bytes, passes on to the next malloc, and now and then records.
//
// An exported function ends in a jump, either to the next malloc or to its slow twin, so that the slow one's frame is,
// to an unwinder, the one that the program called.
#include <gnu/libc-version.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/events/modules.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/recording.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define SLOW [[gnu::noinline]] static
#define FRAME __builtin_frame_address(0)

namespace heapyard::tracer {

constinit EarlyBlocks early_blocks;

}  // namespace heapyard::tracer

namespace {

using namespace heapyard::tracer;
using std::size_t;

extern NextMalloc next;
constinit std::atomic<int> resolved{0};  // 0 not yet, 1 at it, 2 done

template <class Function>
Function* of(const Pointer<Function>& pointer) {
  return pointer.load(std::memory_order_relaxed);
}

template <class Function>
void find(Pointer<Function>& pointer, const char* name) {
  if (void* found = next_symbol(name)) pointer.store(reinterpret_cast<Function*>(found), std::memory_order_relaxed);
}

// False while it is being found out, by this thread or another: then the early blocks serve.
bool resolve() {
  int none = 0;
  if (!resolved.compare_exchange_strong(none, 1)) return resolved.load(std::memory_order_acquire) == 2;
  watch_early_blocks();
  find(next.malloc, "malloc");
  find(next.free, "free");
  find(next.calloc, "calloc");
  find(next.realloc, "realloc");
  find(next.memalign, "memalign");
  find(next.aligned_alloc, "aligned_alloc");
  find(next.posix_memalign, "posix_memalign");
  find(next.valloc, "valloc");
  find(next.pvalloc, "pvalloc");
  find(next.malloc_usable_size, "malloc_usable_size");
  find(next.dlclose, "dlclose");
  resolved.store(2, std::memory_order_release);
  return true;
}

void* early_or_null(size_t size, size_t alignment = 16) {
  void* block = early_blocks.take(size, alignment);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// The stand-ins.
void* first_malloc(size_t size) { return resolve() ? of(next.malloc)(size) : early_or_null(size); }
void first_free(void* block) {
  if (block != nullptr && !early_blocks.owns(block) && resolve()) of(next.free)(block);
}
void* first_calloc(size_t count, size_t size) {
  if (resolve()) return of(next.calloc)(count, size);
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? nullptr : early_or_null(bytes);  // fresh, so zero
}
void* first_realloc(void* old, size_t size) {
  if (resolve()) return of(next.realloc)(old, size);
  void* block = early_or_null(size);
  if (block != nullptr && old != nullptr) {
    const size_t had = EarlyBlocks::size_of(old);
    std::memcpy(block, old, had < size ? had : size);
  }
  return block;
}
void* first_memalign(size_t alignment, size_t size) {
  return resolve() ? of(next.memalign)(alignment, size) : early_or_null(size, alignment);
}
void* first_aligned_alloc(size_t alignment, size_t size) {
  return resolve() ? of(next.aligned_alloc)(alignment, size) : early_or_null(size, alignment);
}
int first_posix_memalign(void** result, size_t alignment, size_t size) {
  if (resolve()) return of(next.posix_memalign)(result, alignment, size);
  *result = early_blocks.take(size, alignment);
  return *result == nullptr ? ENOMEM : 0;
}
void* first_valloc(size_t size) { return resolve() ? of(next.valloc)(size) : early_or_null(size, 4096); }
void* first_pvalloc(size_t size) {
  return resolve() ? of(next.pvalloc)(size) : early_or_null((size + 4095) & ~size_t{4095}, 4096);
}
size_t first_malloc_usable_size(void* block) { return resolve() ? of(next.malloc_usable_size)(block) : 0; }
int first_dlclose(void* handle) { return resolve() ? of(next.dlclose)(handle) : -1; }

constinit NextMalloc next{
    {first_malloc},        {first_free},           {first_calloc}, {first_realloc}, {first_memalign},
    {first_aligned_alloc}, {first_posix_memalign}, {first_valloc}, {first_pvalloc}, {first_malloc_usable_size},
    {first_dlclose}};

SLOW void* slow_malloc(size_t size) {
  return recorded(size, FRAME, [&] { return of(next.malloc)(size); });
}
SLOW void* slow_calloc(size_t count, size_t size) {
  return recorded(count * size, FRAME, [&] { return of(next.calloc)(count, size); });
}
SLOW void* slow_memalign(size_t alignment, size_t size) {
  return recorded(size, FRAME, [&] { return of(next.memalign)(alignment, size); });
}
SLOW void* slow_aligned_alloc(size_t alignment, size_t size) {
  return recorded(size, FRAME, [&] { return of(next.aligned_alloc)(alignment, size); });
}
SLOW int slow_posix_memalign(void** result, size_t alignment, size_t size) {
  int error = 0;
  recorded(size, FRAME, [&]() -> void* {
    error = of(next.posix_memalign)(result, alignment, size);
    return error == 0 ? *result : nullptr;
  });
  return error;
}
SLOW void* slow_valloc(size_t size) {
  return recorded(size, FRAME, [&] { return of(next.valloc)(size); });
}
SLOW void* slow_pvalloc(size_t size) {
  return recorded(size, FRAME, [&] { return of(next.pvalloc)(size); });
}

SLOW void slow_free(void* block) {
  if (early_blocks.owns(block)) return;
  // What the next free reads first, so that it comes meanwhile.
  __builtin_prefetch(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(block) - 8), 1);
  record_free(block, FreeKind::kFree);
  of(next.free)(block);
}

SLOW void* slow_realloc(void* old, size_t size) {
  if (early_blocks.owns(old)) {
    return recorded(size, FRAME, [&] {
      void* block = of(next.malloc)(size);
      const size_t had = EarlyBlocks::size_of(old);
      if (block != nullptr) std::memcpy(block, old, had < size ? had : size);
      return block;
    });
  }
  const bool told = old != nullptr && watched(old) && record_free(old, FreeKind::kMove);
  const std::uint64_t chain = remembered_chain(FRAME);
  void* block = of(next.realloc)(old, size);
  // realloc(p, 0) has freed p; any other null has left it alone.
  if (block == nullptr && told && size != 0) record_stay(old);
  if (is_due(size)) return record_allocation(block, size, FRAME, chain);
  count_down(size);
  return block;
}

}  // namespace

void heapyard::tracer::find_next_malloc() { resolve(); }
bool heapyard::tracer::told_by_heap() { return false; }

unsigned heapyard::tracer::log2_between_blocks() {
  const link_map* libc = object_around(reinterpret_cast<void*>(&gnu_get_libc_version));
  return libc != nullptr && object_around(reinterpret_cast<void*>(of(next.malloc))) == libc ? 5 : 4;
}

EXPORTED void* malloc(size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_malloc(size);
  count_down(size);
  return of(next.malloc)(size);
}

EXPORTED void free(void* block) {
  if (watched(block)) [[unlikely]]
    return slow_free(block);
  of(next.free)(block);
}

EXPORTED void* calloc(size_t count, size_t size) {
  if (is_due(count * size)) [[unlikely]]
    return slow_calloc(count, size);
  count_down(count * size);
  return of(next.calloc)(count, size);
}

EXPORTED void* realloc(void* old, size_t size) {
  if (is_due(size) || watched(old)) [[unlikely]]
    return slow_realloc(old, size);
  count_down(size);
  return of(next.realloc)(old, size);
}

EXPORTED void* reallocarray(void* old, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(old, bytes);
}

EXPORTED void* memalign(size_t alignment, size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_memalign(alignment, size);
  count_down(size);
  return of(next.memalign)(alignment, size);
}

EXPORTED void* aligned_alloc(size_t alignment, size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_aligned_alloc(alignment, size);
  count_down(size);
  return of(next.aligned_alloc)(alignment, size);
}

EXPORTED int posix_memalign(void** result, size_t alignment, size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_posix_memalign(result, alignment, size);
  count_down(size);
  return of(next.posix_memalign)(result, alignment, size);
}

EXPORTED void* valloc(size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_valloc(size);
  count_down(size);
  return of(next.valloc)(size);
}

EXPORTED void* pvalloc(size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_pvalloc(size);
  count_down(size);
  return of(next.pvalloc)(size);
}

EXPORTED size_t malloc_usable_size(void* block) {
  if (early_blocks.owns(block)) [[unlikely]]
    return EarlyBlocks::size_of(block);
  return of(next.malloc_usable_size)(block);
}

// C23: a free that knows the size.
EXPORTED void free_sized(void* block, size_t) { free(block); }
EXPORTED void free_aligned_sized(void* block, size_t, size_t) { free(block); }

EXPORTED int dlclose(void* handle) {
  const int result = of(next.dlclose)(handle);
  forget_modules();
  return result;
}

// For programs that name their phases: a point in time with the exact composition of the heap.
EXPORTED void heapyard_trace_mark(const char* name) { record_mark(name); }
