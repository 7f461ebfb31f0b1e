// SPDX-License-Identifier: Apache-2.0
// How often a loop may turn, asserted where the build is for debugging.
//
// Idea: malloc and free take O(log N), so each loop that they can reach has a bound. The loop names it, and counts its
// turns against it: one turn too many stops the program there. Nothing can be printed, for that may allocate.
// A loop that repeats an atomic step turns once more for each step of another thread; such a bound is no number, and
// stands in a comment. Cost: none in a release build.
#pragma once

#include <cstddef>

namespace heapyard::os {

#ifdef NDEBUG
inline constexpr bool kAsserts = false;
#else
inline constexpr bool kAsserts = true;
#endif

template <bool Asserts>
class BoundIf {
 public:
  constexpr explicit BoundIf(std::size_t most) : left_(most) {}
  constexpr void turn() {
    if (left_-- == 0) __builtin_trap();
  }

 private:
  std::size_t left_;
};
template <>
class BoundIf<false> {
 public:
  constexpr explicit BoundIf(std::size_t) {}
  constexpr void turn() {}
};

// Made before a loop of at most so many turns; turn() begins each.
using Bound = BoundIf<kAsserts>;

}  // namespace heapyard::os
