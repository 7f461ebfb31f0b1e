// SPDX-License-Identifier: Apache-2.0
// How many blocks of which size: four bins per power of two. O(1) per block.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace heapyard::tracer {

struct SizeHistogram {
  static constexpr std::size_t kBins = 4 * 48;
  std::array<double, kBins> blocks{};
  std::array<double, kBins> bytes{};

  // Sizes below 4 have bins of their own; from there a bin is a quarter of a power of two.
  static std::size_t bin(std::uint64_t size) {
    if (size < 4) return static_cast<std::size_t>(size);
    const unsigned power = static_cast<unsigned>(std::bit_width(size)) - 1;
    const std::size_t at = 4 * (power - 1) + (size >> (power - 2) & 3);
    return at < kBins ? at : kBins - 1;
  }
  void add(std::uint64_t size, double of_blocks) {
    blocks[bin(size)] += of_blocks;
    bytes[bin(size)] += of_blocks * static_cast<double>(size);
  }
};

}  // namespace heapyard::tracer
