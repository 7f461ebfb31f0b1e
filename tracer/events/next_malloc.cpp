// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/next_malloc.hpp"

#include <gnu/libc-version.h>

#include <cerrno>
#include <cstring>

#include "tracer/events/free_filter.hpp"
#include "tracer/events/next_symbol.hpp"

namespace heapyard::tracer {
namespace {

using std::size_t;

constinit std::atomic<int> resolved{0};  // 0 not yet, 1 at it, 2 done
constinit std::atomic<bool> tells_usable_size{false};

template <class Function>
void find(Pointer<Function>& pointer, const char* name) {
  if (void* found = next_symbol(name)) pointer.store(reinterpret_cast<Function*>(found), std::memory_order_relaxed);
}

// False while it is being found out, by this thread or another: then the early blocks serve.
bool resolve() {
  int none = 0;
  if (!resolved.compare_exchange_strong(none, 1)) return resolved.load(std::memory_order_acquire) == 2;
  watch_early_blocks();
  find(next_malloc.malloc, "malloc");
  find(next_malloc.free, "free");
  find(next_malloc.calloc, "calloc");
  find(next_malloc.realloc, "realloc");
  find(next_malloc.memalign, "memalign");
  find(next_malloc.aligned_alloc, "aligned_alloc");
  find(next_malloc.posix_memalign, "posix_memalign");
  find(next_malloc.valloc, "valloc");
  find(next_malloc.pvalloc, "pvalloc");
  find(next_malloc.malloc_usable_size, "malloc_usable_size");
  find(next_malloc.dlclose, "dlclose");
  // Of another library it would be another malloc's.
  tells_usable_size.store(object_around(reinterpret_cast<void*>(of(next_malloc.malloc))) ==
                          object_around(reinterpret_cast<void*>(of(next_malloc.malloc_usable_size))));
  resolved.store(2, std::memory_order_release);
  return true;
}

void* early_or_null(size_t size, size_t alignment = 16) {
  void* block = early_blocks.take(size, alignment);
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// The stand-ins.
void* first_malloc(size_t size) { return resolve() ? of(next_malloc.malloc)(size) : early_or_null(size); }
void first_free(void* block) {
  if (block != nullptr && !early_blocks.owns(block) && resolve()) of(next_malloc.free)(block);
}
void* first_calloc(size_t count, size_t size) {
  if (resolve()) return of(next_malloc.calloc)(count, size);
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? nullptr : early_or_null(bytes);  // fresh, so zero
}
void* first_realloc(void* old, size_t size) {
  if (resolve()) return of(next_malloc.realloc)(old, size);
  void* block = early_or_null(size);
  if (block != nullptr && old != nullptr) {
    const size_t had = EarlyBlocks::size_of(old);
    std::memcpy(block, old, had < size ? had : size);
  }
  return block;
}
void* first_memalign(size_t alignment, size_t size) {
  return resolve() ? of(next_malloc.memalign)(alignment, size) : early_or_null(size, alignment);
}
void* first_aligned_alloc(size_t alignment, size_t size) {
  return resolve() ? of(next_malloc.aligned_alloc)(alignment, size) : early_or_null(size, alignment);
}
int first_posix_memalign(void** result, size_t alignment, size_t size) {
  if (resolve()) return of(next_malloc.posix_memalign)(result, alignment, size);
  *result = early_blocks.take(size, alignment);
  return *result == nullptr ? ENOMEM : 0;
}
void* first_valloc(size_t size) { return resolve() ? of(next_malloc.valloc)(size) : early_or_null(size, 4096); }
void* first_pvalloc(size_t size) {
  return resolve() ? of(next_malloc.pvalloc)(size) : early_or_null((size + 4095) & ~size_t{4095}, 4096);
}
size_t first_malloc_usable_size(void* block) { return resolve() ? of(next_malloc.malloc_usable_size)(block) : 0; }
int first_dlclose(void* handle) { return resolve() ? of(next_malloc.dlclose)(handle) : -1; }

}  // namespace

constinit EarlyBlocks early_blocks;
constinit NextMalloc next_malloc{
    {first_malloc},        {first_free},           {first_calloc}, {first_realloc}, {first_memalign},
    {first_aligned_alloc}, {first_posix_memalign}, {first_valloc}, {first_pvalloc}, {first_malloc_usable_size},
    {first_dlclose}};

void find_next_malloc() { resolve(); }

std::size_t usable_size(void* block) {
  const bool asked = tells_usable_size.load(std::memory_order_relaxed) && !early_blocks.owns(block);
  return asked ? of(next_malloc.malloc_usable_size)(block) : 0;
}

unsigned log2_between_blocks() {
  const link_map* libc = object_around(reinterpret_cast<void*>(&gnu_get_libc_version));
  return libc != nullptr && object_around(reinterpret_cast<void*>(of(next_malloc.malloc))) == libc ? 5 : 4;
}

}  // namespace heapyard::tracer
