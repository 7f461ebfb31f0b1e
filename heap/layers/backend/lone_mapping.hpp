// SPDX-License-Identifier: Apache-2.0
// A block in a mapping of its own, for a thread that may not enter the heap right now.
//
// Idea: the two words before the block are the mapping's size with bit 0 set, and zero. A range has an even size there
// (best_fit_tree.hpp), so bit 0 tells the two apart. Cost: one system call each way, at least a page per block.
// Threads: any; signal handlers: any. Errors: null.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

template <MovingPageSource Pages>
class LoneMapping {
 public:
  static constexpr std::size_t kPrefix = 2 * sizeof(std::size_t);

  // `alignment`: a power of two; the sum of both arguments must not overflow.
  static void* allocate(std::size_t bytes, std::size_t alignment) {
    const std::size_t page = os::page_bytes();
    if (alignment < kPrefix) alignment = kPrefix;
    // A block aligned to more than a page has a whole page before it, for its prefix.
    const std::size_t slack = alignment > page ? alignment : 0;
    const std::size_t lead = alignment > page ? page : alignment;
    std::size_t size = os::round_up(lead + bytes, page) + slack;
    void* memory = Pages::map(size);
    if (memory == nullptr) return nullptr;
    const auto start = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t block = os::round_up(start + lead, alignment);
    const std::uintptr_t base = (block - kPrefix) & ~(page - 1);
    if (base != start) Pages::unmap(memory, base - start);
    size -= base - start;
    auto* prefix = reinterpret_cast<std::size_t*>(block) - 2;
    prefix[0] = size | 1;
    prefix[1] = 0;
    return reinterpret_cast<void*>(block);
  }

  static bool owns(const void* block) { return static_cast<const std::size_t*>(block)[-2] & 1; }

  static void free(void* block) { Pages::unmap(base(block), size(block)); }

  // Grows the block, here or elsewhere, by its mapping; null if that cannot be done. It keeps its place in a page, but
  // no alignment beyond that.
  static void* move(void* block, std::size_t bytes) {
    char* start = static_cast<char*>(base(block));
    const auto lead = static_cast<std::size_t>(static_cast<char*>(block) - start);
    const std::size_t larger = os::round_up(lead + bytes, os::page_bytes());
    auto* moved = static_cast<char*>(Pages::remap(start, size(block), larger));
    if (moved == nullptr) return nullptr;
    block = moved + lead;
    static_cast<std::size_t*>(block)[-2] = larger | 1;
    return block;
  }

  static std::size_t usable(const void* block) {
    return size(block) -
           static_cast<std::size_t>(static_cast<const char*>(block) - static_cast<const char*>(base(block)));
  }

 private:
  static std::size_t size(const void* block) { return static_cast<const std::size_t*>(block)[-2] & ~std::size_t{1}; }
  static void* base(const void* block) {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(block) - kPrefix) & ~(os::page_bytes() - 1));
  }
};

}  // namespace heapyard
