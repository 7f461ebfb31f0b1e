// SPDX-License-Identifier: Apache-2.0
// Random numbers over many orders of magnitude, small ones as likely as large ones, for sizes and alignments.
//
// An octave of [low, high] is drawn first, each as likely as the other, then a number within it: up to the ends this is
// the log-uniform law, in whole numbers alone, so that every machine draws the same. O(1).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/random.hpp"

namespace heapyard::kit {

class Octaves {
 public:
  // 1 <= low <= high < 2^63.
  constexpr Octaves(std::uint64_t low, std::uint64_t high) : low_(low), high_(high) {}

  constexpr std::uint64_t count() const { return log2(high_) - log2(low_) + 1; }
  constexpr std::uint64_t draw(Random& random) const { return draw_of(random.below(count()), random); }

  // A number of octave `index` < count().
  constexpr std::uint64_t draw_of(std::uint64_t index, Random& random) const {
    const std::uint64_t first = std::uint64_t{1} << (log2(low_) + index);
    return random.between(std::max(low_, first), std::min(high_, 2 * first - 1));
  }

 private:
  static constexpr std::uint64_t log2(std::uint64_t value) {
    return static_cast<std::uint64_t>(std::bit_width(value)) - 1;
  }

  std::uint64_t low_, high_;
};

}  // namespace heapyard::kit
