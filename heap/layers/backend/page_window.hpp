// SPDX-License-Identifier: Apache-2.0
// One window of address space, of which pieces come to be mapped as they are needed.
//
// Idea: all blocks of size classes and all runs of pages lie in one window, in proportion to the machine's memory. So
// one comparison tells them from anything else, and tables over the window are small. The window is known to be free
// (os/address_space.hpp), and not reserved: nothing that counts, locks, dumps or emulates address space pays for it.
// Where the system ignores the place that is asked for (old kernels, sanitizers), the window is held. What is mapped
// stays small pages: of a page of 2 MiB, a heap that is packed by 4 KiB would use a part.
// Cost: O(1) and a system call each; two where a boundary of 2 MiB is passed. Threads: the owner's lock.
//
// INVARIANT: no block that is not of the window lies in it (backend/outside_spans.hpp). Before reserve() the window is
// empty, so that every pointer is outside of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/os/address_space.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Most: bytes at most.
template <class PagesT, std::size_t Most = std::size_t{1} << 40>
class PageWindow {
 public:
  using Pages = PagesT;
  static constexpr std::size_t kAlignment = std::size_t{2} << 20;
  static constexpr std::size_t kTimesMemory = 4, kLeast = std::size_t{4} << 30;
  static constexpr std::size_t kLeastHeld = std::size_t{64} << 20, kMostHeld = std::size_t{64} << 30;

  constexpr PageWindow() = default;

  // By one thread, before the first commit(). Harmless when the parent did it already.
  void reserve() {
    if (bytes_ != 0) return;
    const std::size_t wish = os::memory_bytes() * kTimesMemory;
    const auto window = Pages::window(wish < kLeast ? least(kLeast) : least(wish), kAlignment);
    start_ = window.start;
    bytes_ = window.bytes;
    if (bytes_ == 0) hold();
  }

  bool contains(const void* block) const { return reinterpret_cast<std::uintptr_t>(block) - start_ < bytes_; }
  // Whether [memory, memory + bytes) lies in the window in part.
  bool meets(const void* memory, std::size_t bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return at < start_ + bytes_ && start_ < at + bytes;
  }
  std::uintptr_t start() const { return start_; }
  std::uintptr_t end() const { return start_ + bytes_; }
  std::size_t bytes() const { return bytes_; }

  // Maps [from, end), zeroed; both at multiples of the system's pages.
  os::Placed commit(std::uintptr_t from, std::uintptr_t end) {
    void* const at = reinterpret_cast<void*>(from);
    const os::Placed placed = !held_                                        ? Pages::place(at, end - from)
                              : Pages::place_in_held(at, end - from, false) ? os::Placed::done
                                                                            : os::Placed::refused;
    if (placed != os::Placed::done) return placed;
    mapped_ += end - from;
    // What was mapped before, up to the boundary, too; and what lies behind the last boundary when that is passed.
    const std::uintptr_t first = from & ~(kAlignment - 1), last = end & ~(kAlignment - 1);
    if (first < last) {
      const std::uintptr_t begin = first < start_ ? start_ : first;
      Pages::refuse_huge_pages(reinterpret_cast<void*>(begin), last - begin);
    }
    return placed;
  }

  // The opposite. False when the system cannot: then nothing changed.
  bool uncommit(std::uintptr_t from, std::uintptr_t end) {
    void* const at = reinterpret_cast<void*>(from);
    if (!(held_ ? Pages::place_in_held(at, end - from, true) : Pages::unmap(at, end - from))) return false;
    mapped_ -= end - from;
    return true;
  }

  std::size_t mapped() const { return mapped_; }

 private:
  static constexpr std::size_t least(std::size_t bytes) { return (bytes < Most ? bytes : Most) & ~(kAlignment - 1); }

  void hold() {
    held_ = true;
    for (std::size_t bytes = Most < kMostHeld ? Most : kMostHeld; bytes >= kLeastHeld; bytes /= 2) {  // bound: 10
      // Twice as much must be there: large blocks and the program's own mappings need the rest.
      void* memory = Pages::hold(2 * bytes, kAlignment);
      if (memory == nullptr) continue;
      Pages::unmap(static_cast<char*>(memory) + bytes, bytes);
      start_ = reinterpret_cast<std::uintptr_t>(memory);
      bytes_ = bytes;
      return;
    }
  }

  std::uintptr_t start_ = 0;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;
  bool held_ = false;  // the window, against anybody else
};

}  // namespace heapyard
