// SPDX-License-Identifier: Apache-2.0
// The way into the heaps that a program makes: into the heap that they stand on, and what to do where there is none.
//
// Cost: that of the layers (first_class_heaps.hpp), and a visit. Threads: any. Errors: null with errno ENOMEM, or
// false.
#pragma once

#include <cstddef>
#include <cstring>

#include "heap/os/no_memory.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// H: a heap of pages (page_heap.hpp).
template <class H>
struct FirstClass {
  using Heaps = typename H::FirstClassHeaps;
  using Heap = typename Heaps::Heap;
  using Parts = typename H::Layered;
  static constexpr std::size_t kAlignment = 16;

  static Heap* make() {
    Heap* heap = nullptr;
    H::inside([&](const auto&) {
      heap = Heaps::make();
      Parts::runs.settle();
    });
    os::or_no_memory(heap);
    return heap;
  }

  // False where this thread may not enter. What was freed meanwhile goes first, for some may be the heap's.
  static bool destroy(Heap* heap) {
    return H::inside([&](const auto&) {
      Heaps::destroy(heap);
      Parts::runs.settle();
    });
  }

  // `alignment`: a power of two.
  static void* allocate(Heap* heap, std::size_t bytes, std::size_t alignment, bool zeroed) {
    if (alignment < kAlignment) alignment = kAlignment;
    void* block = nullptr;
    bool zero = true;  // as a mapping is
    const bool inside = H::inside([&](const auto&) {
      block = Heaps::allocate(heap, bytes, alignment, zero);
      if (block == nullptr && Parts::runs.shrink()) block = Heaps::allocate(heap, bytes, alignment, zero);
      Parts::runs.settle();
    });
    if (!inside) block = Heaps::allocate_lone(heap, bytes, alignment);
    if (block != nullptr && zeroed && !zero) std::memset(block, 0, bytes);
    return os::or_no_memory(block);
  }

  // A block of such a heap gets another size elsewhere in its heap; null, with the old errno, if it cannot.
  [[gnu::noinline, gnu::cold]] static void* move(void* block, std::size_t bytes) {
    const os::KeepErrno keep;
    const std::size_t now = H::usable(block);
    void* moved = allocate(of(block), bytes, kAlignment, false);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, block, now < bytes ? now : bytes);
    H::free(block);
    return moved;
  }

  // The heap of a block that is in use; null: it is of none.
  static Heap* of(const void* block) {
    if (!Parts::spans.contains(block) || Parts::Map::class_of(Parts::spans, block) != 0) return nullptr;
    return Heaps::heap_of(Parts::map.run_of(Parts::map.page_of(block)));
  }
};

}  // namespace heapyard
