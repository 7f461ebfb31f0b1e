// SPDX-License-Identifier: Apache-2.0
// The malloc that serves the program: the next one after this library in the order of symbols.
//
// Idea: a pointer per function, at first to a stand-in that looks the real ones up (next_symbol.hpp), so that a
// call costs no question whether they are known. What that look-up itself allocates comes from a small buffer that is
// never freed. Cost: O(1) after the first call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heapyard::tracer {

template <class Function>
using Pointer = std::atomic<Function*>;

struct NextMalloc {
  Pointer<void*(std::size_t)> malloc;
  Pointer<void(void*)> free;
  Pointer<void*(std::size_t, std::size_t)> calloc;
  Pointer<void*(void*, std::size_t)> realloc;
  Pointer<void*(std::size_t, std::size_t)> memalign;
  Pointer<void*(std::size_t, std::size_t)> aligned_alloc;
  Pointer<int(void**, std::size_t, std::size_t)> posix_memalign;
  Pointer<void*(std::size_t)> valloc;
  Pointer<void*(std::size_t)> pvalloc;
  Pointer<std::size_t(void*)> malloc_usable_size;
  Pointer<int(void*)> dlclose;
};
extern NextMalloc next_malloc __attribute__((visibility("hidden")));  // so that its address is no load

template <class Function>
Function* of(const Pointer<Function>& pointer) {
  return pointer.load(std::memory_order_relaxed);
}

// Blocks for the time before the next malloc is known: 64 KiB, more than the dynamic linker asks for.
class EarlyBlocks {
 public:
  static constexpr std::size_t kBytes = 64 << 10;

  void* take(std::size_t size, std::size_t alignment = 16) {
    const std::size_t needed = (size + alignment + 31) & ~std::size_t{15};  // 16 bytes before each block hold its size
    if (size > kBytes || alignment > kBytes) return nullptr;
    const std::size_t begin = used_.fetch_add(needed, std::memory_order_relaxed);
    if (begin + needed > kBytes) return nullptr;
    const auto raw = reinterpret_cast<std::uintptr_t>(bytes_ + begin + 16);
    char* block = bytes_ + begin + 16 + ((alignment - raw % alignment) % alignment);
    std::memcpy(block - 16, &size, sizeof size);
    return block;
  }
  bool owns(const void* block) const { return block >= bytes_ && block < bytes_ + kBytes; }
  static std::size_t size_of(const void* block) {
    std::size_t size;
    std::memcpy(&size, static_cast<const char*>(block) - 16, sizeof size);
    return size;
  }
  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes_); }

 private:
  alignas(4096) char bytes_[kBytes] = {};
  std::atomic<std::size_t> used_{0};
};

extern EarlyBlocks early_blocks __attribute__((visibility("hidden")));

// Now rather than at the first call.
void find_next_malloc();

// How many bytes of a block of the malloc that serves may be used; 0 where that does not say. O(1).
std::size_t usable_size(void* block);

// Of the malloc that serves, found by then: its blocks lie this far apart at least, as a power of two. 32 bytes if it
// is the GNU C library's, whose chunks have no less (malloc.c, MINSIZE); else 16. O(loaded objects).
unsigned log2_between_blocks();

}  // namespace heapyard::tracer
