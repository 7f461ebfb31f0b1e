// SPDX-License-Identifier: Apache-2.0
// Deterministic random numbers: the same seed gives the same sequence on any machine and under any allocator.
//
// SplitMix64 (Steele, Lea, Flood 2014). Streams are keyed by (seed, stream): no stream of one seed is a stream of the
// next, unlike ACDC's seed + thread. Cost O(1) per draw.
#pragma once

#include <cstdint>

namespace heapyard {

constexpr std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9u;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

class Random {
 public:
  constexpr explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      // Both words pass the mixer before they meet, so that neighbouring seeds and streams share nothing.
      : state_(mix(mix(seed + 0x9e3779b97f4a7c15u) ^ (stream * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du))) {}

  constexpr std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }

  // Uniform in [0, bound), without bias (Lemire 2019); bound > 0. Bound of the loop: expected under 2 draws.
  constexpr std::uint64_t below(std::uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t rejected = -bound % bound;
      while (static_cast<std::uint64_t>(product) < rejected) product = static_cast<unsigned __int128>(next()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // Uniform in [low, high], both included.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

  // True with probability percent / 100, exactly.
  constexpr bool percent(std::uint64_t percent) { return below(100) < percent; }

  // Uniform in [0, 1) with 53 bits.
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// Folds a value into a running checksum of a sequence (order matters).
constexpr std::uint64_t fold(std::uint64_t sum, std::uint64_t value) {
  return mix(sum * 0x9e3779b97f4a7c15u + value + 1);
}

}  // namespace heapyard
