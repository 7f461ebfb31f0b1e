// SPDX-License-Identifier: Apache-2.0
// A window of address space in which a heap maps pieces at places of its own choice.
//
// Idea: the window is known to be free (os/address_space.hpp), and not reserved: nothing that counts, locks, dumps or
// emulates address space pays for it. Where the system ignores the place that is asked for (old kernels, sanitizers),
// the window is held against anybody else. What is mapped stays small pages, unless the heap asks for huge ones: mostly
// it uses a part of each 2 MiB, and a huge page would hold all of it.
// Cost: O(1) and a system call each; two where a boundary of 2 MiB is passed. Threads: find() is of one; map() and
// unmap() of any, of pieces apart.
//
// INVARIANT: before find() the window is empty, so that every pointer is outside of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/os/address_space.hpp"
#include "heap/os/bound.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

template <PlacedPageSource Pages>
class PlacedWindow {
 public:
  static constexpr std::size_t kLeastHeld = std::size_t{64} << 20, kMostHeld = std::size_t{64} << 30;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;  // the least of all systems

  constexpr PlacedWindow() = default;

  // A window of `wish` bytes at a multiple of `alignment`, or one of at most `most` that is held. Empty when there is
  // none. Harmless when it was found already: by the parent, in the middle of whose start this process was forked.
  void find(std::size_t wish, std::size_t most, std::size_t alignment) {
    if (bytes_ != 0) return;
    const auto window = Pages::window(wish, alignment);
    start_ = window.start;
    bytes_ = window.bytes;
    if (bytes_ == 0) hold(most < kMostHeld ? most : kMostHeld, alignment);
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

  // Maps [from, end), zeroed; both at multiples of the system's pages. `huge`: in huge pages, where it can; both at
  // multiples of kHugePage then.
  os::Placed map(std::uintptr_t from, std::uintptr_t end, bool huge = false) {
    void* const at = reinterpret_cast<void*>(from);
    const os::Placed placed = !held_                                        ? Pages::place(at, end - from)
                              : Pages::place_in_held(at, end - from, false) ? os::Placed::done
                                                                            : os::Placed::refused;
    if (placed != os::Placed::done) return placed;
    if (huge) return Pages::prefer_huge_pages(at, end - from), placed;
    // What was mapped before, up to the boundary, too; and what lies behind the last boundary when that is passed.
    const std::uintptr_t first = from & ~(kHugePage - 1), last = end & ~(kHugePage - 1);
    if (first < last) {
      const std::uintptr_t begin = first < start_ ? start_ : first;
      Pages::refuse_huge_pages(reinterpret_cast<void*>(begin), last - begin);
    }
    return placed;
  }

  // The opposite. False when the system cannot: then nothing changed.
  bool unmap(std::uintptr_t from, std::uintptr_t end) {
    void* const at = reinterpret_cast<void*>(from);
    return held_ ? Pages::place_in_held(at, end - from, true) : Pages::unmap(at, end - from);
  }

  // Moves what is mapped at [from, from + bytes) to `to`, where nothing is. False when the system cannot.
  bool move(std::uintptr_t from, std::uintptr_t to, std::size_t bytes) {
    void *const source = reinterpret_cast<void*>(from), *const target = reinterpret_cast<void*>(to);
    return !held_ && Pages::move_mapping(source, bytes, target, bytes);
  }

 private:
  void hold(std::size_t most, std::size_t alignment) {
    held_ = true;
    os::Bound bound(11);  // powers of two from kMostHeld down to kLeastHeld
    for (std::size_t bytes = most; bytes >= kLeastHeld; bytes /= 2) {
      bound.turn();
      // Twice as much must be there: large blocks and the program's own mappings need the rest.
      void* memory = Pages::hold(2 * bytes, alignment);
      if (memory == nullptr) continue;
      Pages::unmap(static_cast<char*>(memory) + bytes, bytes);
      start_ = reinterpret_cast<std::uintptr_t>(memory);
      bytes_ = bytes;
      return;
    }
  }

  std::uintptr_t start_ = 0;
  std::size_t bytes_ = 0;
  bool held_ = false;
};

}  // namespace heapyard
