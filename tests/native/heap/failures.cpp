// SPDX-License-Identifier: Apache-2.0
// What each function of malloc's family answers to requests that fail, and to a few odd ones that do not: a line each,
// with errno after it. Run under glibc and under each heap (tests/e2e/test_heap_failures.py).
#include <malloc.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

// Seen by no optimiser, nor by warnings of sizes that are too large.
template <class T>
T opaque(T value) {
  volatile T copy = value;
  return copy;
}

constexpr int kUntouched = 77;

template <class Call>
void tell(const char* name, Call call) {
  errno = kUntouched;
  const char* answer = call();
  const int number = errno;
  std::printf("%s: %s, errno %s\n", name, answer, number == kUntouched ? "untouched" : strerrorname_np(number));
}

// Whether a block came; it is given back, and errno is what the call left.
const char* got(void* block) {
  if (block == nullptr) return "null";
  const int number = errno;
  free(block);
  errno = number;
  return "a block";
}

constexpr char kText[] = "stays as it is";
const char* kept(std::uintptr_t address, void* moved) {
  void* block = reinterpret_cast<void*>(address);
  if (moved != nullptr) return got(moved);
  const bool same = std::memcmp(block, kText, sizeof kText) == 0;
  const int number = errno;
  free(block);
  errno = number;
  return same ? "null, the block stays" : "null, the block changed";
}
void* text(std::size_t room) {
  void* block = malloc(room);
  return block == nullptr ? nullptr : std::memcpy(block, kText, sizeof kText);
}

const char* of_posix_memalign(std::size_t alignment, std::size_t bytes) {
  void* block = &block;
  const int answer = posix_memalign(&block, alignment, bytes);
  if (answer == 0) return got(block);
  if (block != &block) return "an error, the result was written";
  return answer == EINVAL ? "EINVAL" : answer == ENOMEM ? "ENOMEM" : "another error";
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  // More than the address space; more than a pointer difference; so much that sums overflow.
  constexpr std::size_t kSizes[] = {std::size_t{1} << 48, PTRDIFF_MAX, std::size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4096,
                                    SIZE_MAX};
  for (const std::size_t size : kSizes) {
    const std::size_t bytes = opaque(size);
    std::printf("%zx bytes\n", bytes);
    tell("malloc", [&] { return got(malloc(bytes)); });
    tell("calloc", [&] { return got(calloc(1, bytes)); });
    tell("calloc of two", [&] { return got(calloc(bytes, 2)); });
    for (const std::size_t room : {100ul, 5'000ul, 300'000ul, 4'000'000ul}) {
      void* block = text(room);
      volatile std::uintptr_t address = reinterpret_cast<std::uintptr_t>(block);
      tell("realloc", [&] { return kept(address, realloc(block, bytes)); });
      block = text(room);
      address = reinterpret_cast<std::uintptr_t>(block);
      tell("reallocarray", [&] { return kept(address, reallocarray(block, bytes, 1)); });
      block = text(room);
      address = reinterpret_cast<std::uintptr_t>(block);
      tell("reallocarray of many", [&] { return kept(address, reallocarray(block, bytes, 1 << 20)); });
    }
    tell("realloc of nothing", [&] { return got(realloc(nullptr, bytes)); });
    tell("reallocarray of nothing", [&] { return got(reallocarray(nullptr, bytes, 3)); });
    for (const std::size_t alignment : {8ul, 64ul, 4096ul, 1ul << 21}) {
      tell("aligned_alloc", [&] { return got(aligned_alloc(alignment, bytes)); });
      tell("memalign", [&] { return got(memalign(alignment, bytes)); });
      tell("posix_memalign", [&] { return of_posix_memalign(alignment, bytes); });
    }
    tell("valloc", [&] { return got(valloc(bytes)); });
    tell("pvalloc", [&] { return got(pvalloc(bytes)); });
  }
  std::puts("alignments");
  for (const std::size_t alignment : {1ul << 62, 1ul << 63, (1ul << 63) + 1, SIZE_MAX}) {
    tell("memalign", [&] { return got(memalign(opaque(alignment), 8)); });
  }
  for (const std::size_t alignment : {0ul, 1ul, 4ul, 12ul, 24ul, 1ul << 62, 1ul << 63, (1ul << 63) + 8, SIZE_MAX}) {
    tell("posix_memalign", [&] { return of_posix_memalign(opaque(alignment), 8); });
  }
  std::puts("what works");
  tell("malloc", [] { return got(malloc(opaque(0ul))); });
  tell("calloc", [] { return got(calloc(opaque(0ul), 8)); });
  tell("realloc", [] { return got(realloc(opaque<void*>(nullptr), 0)); });
  tell("realloc to nothing", [] { return got(realloc(malloc(10), opaque(0ul))); });
  tell("reallocarray to nothing", [] { return got(reallocarray(malloc(10), opaque(0ul), 3)); });
  tell("large", [] { return got(realloc(malloc(100), opaque(std::size_t{8} << 20))); });
  for (const std::size_t alignment : {0ul, 1ul, 4ul, 24ul, 100ul, 70'000ul}) {
    tell("memalign", [&] { return got(memalign(opaque(alignment), 100)); });
  }
  tell("posix_memalign", [] { return of_posix_memalign(64, opaque(0ul)); });
  tell("valloc", [] { return got(valloc(opaque(0ul))); });
  tell("pvalloc", [] { return got(pvalloc(opaque(0ul))); });
  tell("malloc_usable_size", [] { return malloc_usable_size(nullptr) == 0 ? "0" : "something"; });
  return 0;
}
