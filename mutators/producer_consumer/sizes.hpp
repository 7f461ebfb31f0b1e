// SPDX-License-Identifier: Apache-2.0
// Random sizes as rpmalloc-benchmark draws them: a table of 2,000, taken in turn.
//
// With e an even draw in [low, high] and w = 1 - (e - low) / (high - low) of three neighbours i, i + 1, i + 2:
//   even    e_i
//   linear  low + (e_{i+2} - low) |w_i + w_{i+1} - 1|
//   exp     low + (e_{i+2} - low) w_i w_{i+1}
// The original's table is fixed; this one comes from the seed. O(1) per size.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.hpp"

namespace heapyard::producer_consumer {

enum class Law { kEven, kLinear, kExp };

class Sizes {
 public:
  static constexpr std::size_t kCount = 2000;

  Sizes(std::uint64_t seed, Law law, std::uint64_t low, std::uint64_t high) {
    constexpr std::uint64_t kStream = std::uint64_t{1} << 33;  // no worker has it
    Random random(seed, kStream);
    std::uint64_t even[kCount];
    for (std::uint64_t& size : even) size = random.between(low, high);
    const auto weight = [&](std::size_t i) {
      return high > low ? 1 - static_cast<double>(even[i % kCount] - low) / static_cast<double>(high - low) : 1.0;
    };
    for (std::size_t i = 0; i < kCount; ++i) {
      const double factor = law == Law::kLinear ? std::fabs(weight(i) + weight(i + 1) - 1) : weight(i) * weight(i + 1);
      const auto range = static_cast<double>(even[(i + 2) % kCount] - low);
      sizes_[i] = law == Law::kEven ? even[i] : low + static_cast<std::uint64_t>(range * factor);
    }
  }

  // The size at a position that counts up for ever.
  std::uint64_t at(std::uint64_t position) const { return sizes_[position % kCount]; }

 private:
  std::uint64_t sizes_[kCount];
};

}  // namespace heapyard::producer_consumer
