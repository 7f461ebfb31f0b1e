// SPDX-License-Identifier: Apache-2.0
// One window of address space, of which pieces come to be mapped as they are needed.
//
// Idea: all blocks of size classes and all runs of pages lie in one window (placed_window.hpp), in proportion to the
// machine's memory. So one comparison tells them from anything else, and tables over the window are small. Cost: O(1)
// and a system call each; two where a boundary of 2 MiB is passed. Threads: the owner's lock.
//
// INVARIANT: no block that is not of the window lies in it (backend/outside_spans.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/backend/placed_window.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/os/address_space.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Most: bytes at most.
template <PlacedPageSource PagesT, std::size_t Most = std::size_t{1} << 40>
class PageWindow {
 public:
  using Pages = PagesT;
  static constexpr std::size_t kAlignment = std::size_t{2} << 20, kHugePage = PlacedWindow<PagesT>::kHugePage;
  static constexpr std::size_t kTimesMemory = 4, kLeast = std::size_t{4} << 30;

  constexpr PageWindow() = default;

  // By one thread, before the first commit(). Harmless when the parent did it already.
  void reserve() {
    const std::size_t wish = os::memory_bytes() * kTimesMemory;
    window_.find(wish < kLeast ? least(kLeast) : least(wish), Most, kAlignment);
  }

  bool contains(const void* block) const { return window_.contains(block); }
  bool meets(const void* memory, std::size_t bytes) const { return window_.meets(memory, bytes); }
  std::uintptr_t start() const { return window_.start(); }
  std::uintptr_t end() const { return window_.end(); }
  std::size_t bytes() const { return window_.bytes(); }

  // Maps [from, end), zeroed; both at multiples of the system's pages, or of kHugePage if huge ones are wanted.
  os::Placed commit(std::uintptr_t from, std::uintptr_t end, bool huge = false) {
    const os::Placed placed = window_.map(from, end, huge);
    if (placed == os::Placed::done) mapped_ += end - from;
    return placed;
  }

  // The opposite. False when the system cannot: then nothing changed.
  bool uncommit(std::uintptr_t from, std::uintptr_t end) {
    if (!window_.unmap(from, end)) return false;
    mapped_ -= end - from;
    return true;
  }

  // Moves what is mapped at [from, from + bytes) to `to`, where nothing is. False when the system cannot.
  bool move(std::uintptr_t from, std::uintptr_t to, std::size_t bytes) { return window_.move(from, to, bytes); }

  std::size_t mapped() const { return mapped_; }

 private:
  static constexpr std::size_t least(std::size_t bytes) { return (bytes < Most ? bytes : Most) & ~(kAlignment - 1); }

  PlacedWindow<Pages> window_;
  std::size_t mapped_ = 0;
};

}  // namespace heapyard
