// SPDX-License-Identifier: Apache-2.0
// The functions of malloc: each counts bytes, passes on to the next malloc, and now and then records.
//
// An exported function ends in a jump, either to the next malloc or to its slow twin, so that the slow one's frame is,
// to an unwinder, the one that the program called.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/events/modules.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/recording.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define SLOW [[gnu::noinline]] static
#define FRAME __builtin_frame_address(0)

namespace {

using namespace heapyard::tracer;
using std::size_t;

SLOW void* slow_malloc(size_t size) {
  return recorded(size, FRAME, [&] { return of(next_malloc.malloc)(size); });
}
SLOW void* slow_calloc(size_t count, size_t size) {
  return recorded(count * size, FRAME, [&] { return of(next_malloc.calloc)(count, size); });
}
SLOW void* slow_memalign(size_t alignment, size_t size) {
  return recorded(size, FRAME, [&] { return of(next_malloc.memalign)(alignment, size); });
}
SLOW void* slow_aligned_alloc(size_t alignment, size_t size) {
  return recorded(size, FRAME, [&] { return of(next_malloc.aligned_alloc)(alignment, size); });
}
SLOW int slow_posix_memalign(void** result, size_t alignment, size_t size) {
  int error = 0;
  recorded(size, FRAME, [&]() -> void* {
    error = of(next_malloc.posix_memalign)(result, alignment, size);
    return error == 0 ? *result : nullptr;
  });
  return error;
}
SLOW void* slow_valloc(size_t size) {
  return recorded(size, FRAME, [&] { return of(next_malloc.valloc)(size); });
}
SLOW void* slow_pvalloc(size_t size) {
  return recorded(size, FRAME, [&] { return of(next_malloc.pvalloc)(size); });
}

SLOW void slow_free(void* block) {
  if (early_blocks.owns(block)) return;
  // What the next free reads first, so that it comes meanwhile.
  __builtin_prefetch(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(block) - 8), 1);
  record_free(block, FreeKind::kFree);
  of(next_malloc.free)(block);
}

SLOW void* slow_realloc(void* old, size_t size) {
  if (early_blocks.owns(old)) {
    return recorded(size, FRAME, [&] {
      void* block = of(next_malloc.malloc)(size);
      const size_t had = EarlyBlocks::size_of(old);
      if (block != nullptr) std::memcpy(block, old, had < size ? had : size);
      return block;
    });
  }
  const bool told = old != nullptr && watched(old) && record_free(old, FreeKind::kMove);
  const std::uint64_t chain = remembered_chain(FRAME);
  void* block = of(next_malloc.realloc)(old, size);
  // realloc(p, 0) has freed p; any other null has left it alone.
  if (block == nullptr && told && size != 0) record_stay(old);
  if (is_due(size)) return record_allocation(block, size, FRAME, chain);
  count_down(size);
  return block;
}

}  // namespace

bool heapyard::tracer::told_by_heap() { return false; }

EXPORTED void* malloc(size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_malloc(size);
  count_down(size);
  return of(next_malloc.malloc)(size);
}

EXPORTED void free(void* block) {
  if (watched(block)) [[unlikely]]
    return slow_free(block);
  of(next_malloc.free)(block);
}

EXPORTED void* calloc(size_t count, size_t size) {
  if (is_due(count * size)) [[unlikely]]
    return slow_calloc(count, size);
  count_down(count * size);
  return of(next_malloc.calloc)(count, size);
}

EXPORTED void* realloc(void* old, size_t size) {
  if (is_due(size) || watched(old)) [[unlikely]]
    return slow_realloc(old, size);
  count_down(size);
  return of(next_malloc.realloc)(old, size);
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
  return of(next_malloc.memalign)(alignment, size);
}

EXPORTED void* aligned_alloc(size_t alignment, size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_aligned_alloc(alignment, size);
  count_down(size);
  return of(next_malloc.aligned_alloc)(alignment, size);
}

EXPORTED int posix_memalign(void** result, size_t alignment, size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_posix_memalign(result, alignment, size);
  count_down(size);
  return of(next_malloc.posix_memalign)(result, alignment, size);
}

EXPORTED void* valloc(size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_valloc(size);
  count_down(size);
  return of(next_malloc.valloc)(size);
}

EXPORTED void* pvalloc(size_t size) {
  if (is_due(size)) [[unlikely]]
    return slow_pvalloc(size);
  count_down(size);
  return of(next_malloc.pvalloc)(size);
}

EXPORTED size_t malloc_usable_size(void* block) {
  if (early_blocks.owns(block)) [[unlikely]]
    return EarlyBlocks::size_of(block);
  return of(next_malloc.malloc_usable_size)(block);
}

// C23: a free that knows the size.
EXPORTED void free_sized(void* block, size_t) { free(block); }
EXPORTED void free_aligned_sized(void* block, size_t, size_t) { free(block); }

EXPORTED int dlclose(void* handle) {
  const int result = of(next_malloc.dlclose)(handle);
  forget_modules();
  return result;
}

// For programs that name their phases: a point in time with the exact composition of the heap.
EXPORTED void heapyard_trace_mark(const char* name) { record_mark(name); }
