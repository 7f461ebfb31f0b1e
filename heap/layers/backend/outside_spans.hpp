// SPDX-License-Identifier: Apache-2.0
// Pages that do not lie in the window of spans: for everything else that a heap hands out.
//
// Idea: an address in the window is taken for a block of a span, so nothing else may lie there. The system places
// mappings far from the window, unless the address space is nearly full or small. In that case this layer asks for a
// place on the other side. Cost: a comparison; in that case a few system calls more. Errors: null.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/os/bound.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Owner: has the window as its static member `spans` (virtual_spans.hpp).
template <PageSource Pages, class Owner>
struct OutsideSpans : Pages {
  static void* map(std::size_t bytes) {
    void* memory = Pages::map(bytes);
    if (memory == nullptr || !Owner::spans.meets(memory, bytes)) [[likely]]
      return memory;
    Pages::unmap(memory, bytes);
    const std::uintptr_t start = Owner::spans.start(), end = Owner::spans.end();
    os::Bound bound(25);  // powers of two from kLeast to kMost
    for (std::uintptr_t away = bytes + kLeast; away <= kMost && away != 0; away *= 2) {
      bound.turn();
      for (const std::uintptr_t wish : {start > away ? start - away : 0, end + away}) {
        if (wish == 0) continue;
        memory = Pages::map_near(reinterpret_cast<void*>(wish & ~kLow), bytes);
        if (memory == nullptr || !Owner::spans.meets(memory, bytes)) return memory;
        Pages::unmap(memory, bytes);
      }
    }
    return nullptr;
  }

  static void* map_aligned(std::size_t bytes, std::size_t alignment) {
    void* memory = Pages::map_aligned(bytes, alignment);
    if (memory == nullptr || !Owner::spans.meets(memory, bytes)) [[likely]]
      return memory;
    Pages::unmap(memory, bytes);
    return nullptr;  // whoever asks for it does without
  }

  // Not by remap alone, for the system would choose the place. If the mapping moves, both places count for a moment.
  static void* remap(void* memory, std::size_t bytes, std::size_t larger) {
    if (Owner::spans.meets(memory, larger)) return nullptr;
    const os::Grown grown = Pages::grow_mapping(memory, bytes, larger);
    if (grown != os::Grown::elsewhere_only) return grown == os::Grown::here ? memory : nullptr;
    void* target = map(larger);
    return target != nullptr && Pages::move_mapping(memory, bytes, target, larger) ? target : nullptr;
  }

 private:
  static constexpr std::uintptr_t kLow = 0xffff, kLeast = std::uintptr_t{1} << 20, kMost = std::uintptr_t{1} << 44;
};

}  // namespace heapyard
