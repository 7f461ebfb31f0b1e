// SPDX-License-Identifier: Apache-2.0
// The C interface: malloc and its family, as C23, POSIX and glibc define them.
//
// Cost: that of the heap; realloc that cannot stay in place moves pages, or copies. Errors: null with errno ENOMEM, or
// EINVAL for an alignment that is not a power of two; posix_memalign returns the number. free() leaves errno alone.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "composition.hpp"
#include "heap/tracing/page_events.hpp"
#include "heap/os/pages.hpp"

using heapyard::abi::Heap;

namespace {

[[gnu::constructor]] void begin() { Heap::begin(); }

[[gnu::cold, gnu::noinline]] void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

// A large block that grew once grows again. So it gets a part in kSpare more if there is room: pages that nobody
// touches cost nothing, and growth by a few bytes at a time costs O(1) a byte. Not where samples count what was asked
// for.
constexpr std::size_t kGrows = std::size_t{128} << 10, kSpare = 16;
std::size_t with_spare(std::size_t bytes, std::size_t now) {
  return Heap::kSampled || bytes < kGrows || bytes <= now || bytes > PTRDIFF_MAX / 2 ? bytes : bytes + bytes / kSpare;
}

bool power_of_two(std::size_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// For the tracer: from now on `events` is told of page records, spans and large blocks; null: nobody is.
void heapyard_observe_pages(const struct heapyard_page_events* events) {
  heapyard::tracing::page_events.store(events, std::memory_order_relaxed);
}

void* malloc(std::size_t bytes) { return Heap::allocate(bytes); }

void free(void* block) { Heap::free(block); }

void* calloc(std::size_t count, std::size_t each) {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, each, &bytes)) return out_of_memory();
  return Heap::allocate_zeroed(bytes);
}

// realloc(p, 0) frees and gives null, as glibc's does and its programs expect; C23 leaves it undefined.
void* realloc(void* block, std::size_t bytes) {
  if (block == nullptr) return malloc(bytes);
  if (bytes == 0) {
    Heap::free(block);
    return nullptr;
  }
  if (Heap::resize(block, bytes)) return block;
  const std::size_t old = Heap::usable(block), roomy = with_spare(bytes, old);
  void* moved = Heap::move(block, roomy);
  if (moved == nullptr && roomy != bytes) moved = Heap::move(block, bytes);
  if (moved != nullptr) return moved;
  if (roomy != bytes) {
    const heapyard::os::KeepErrno keep;
    moved = Heap::allocate(roomy);
  }
  if (moved == nullptr) moved = Heap::allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, old < bytes ? old : bytes);
  Heap::free(block);
  return moved;
}

void* reallocarray(void* block, std::size_t count, std::size_t each) {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, each, &bytes)) return out_of_memory();
  return realloc(block, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (!power_of_two(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  return Heap::allocate_aligned(bytes, alignment);
}

// glibc declares this one, pvalloc and malloc_usable_size in a header of their own, as functions that do not throw.
// Other than aligned_alloc it takes any alignment, rounded up to a power of two, as glibc's does.
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return nullptr;
  }
  std::size_t power = 1;
  while (power < alignment) power *= 2;
  return Heap::allocate_aligned(bytes, power);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  if (!power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  void* block = Heap::allocate_aligned(bytes, alignment);
  if (block == nullptr) return ENOMEM;  // so is errno, as glibc's callers know it
  *result = block;
  return 0;
}

void* valloc(std::size_t bytes) { return Heap::allocate_aligned(bytes, heapyard::os::page_bytes()); }

void* pvalloc(std::size_t bytes) noexcept {
  const std::size_t page = heapyard::os::page_bytes();
  if (bytes > SIZE_MAX - page) return out_of_memory();
  return Heap::allocate_aligned(heapyard::os::round_up(bytes, page), page);
}

std::size_t malloc_usable_size(void* block) noexcept { return block == nullptr ? 0 : Heap::usable(block); }

// The C library calls some of its own under the names that begin with __libc.
#if !defined(__clang__)  // which has no such warnings
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattribute-alias"
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
[[gnu::alias("free")]] void free_sized(void*, std::size_t);
[[gnu::alias("free")]] void free_aligned_sized(void*, std::size_t, std::size_t);
[[gnu::alias("free")]] void cfree(void*);
[[gnu::alias("free")]] void __libc_free(void*);
[[gnu::alias("malloc")]] void* __libc_malloc(std::size_t);
[[gnu::alias("calloc")]] void* __libc_calloc(std::size_t, std::size_t);
[[gnu::alias("realloc")]] void* __libc_realloc(void*, std::size_t);
[[gnu::alias("memalign")]] void* __libc_memalign(std::size_t, std::size_t);
[[gnu::alias("valloc")]] void* __libc_valloc(std::size_t);
[[gnu::alias("pvalloc")]] void* __libc_pvalloc(std::size_t);
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // extern "C"
#pragma GCC visibility pop
