// SPDX-License-Identifier: Apache-2.0
// Sampling by bytes: how far to the next sample, and what a sample stands for.
//
// Idea: every byte is a sample with probability 1/R, independently; a block is sampled when one of its bytes is. A
// block of Z bytes is then sampled with probability 1 - exp(-Z/R) and stands for 1 / that many blocks of its size
// (Horvitz and Thompson 1952), which makes every sum over blocks unbiased. A block counts one byte more than asked, so
// that blocks of no bytes are seen too. Cost: O(1).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace heapyard::tracer {

// xorshift64* (Vigna 2016).
inline std::uint64_t next_random(std::uint64_t& state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1du;
}

// -ln(u) for u in (0, 1], without libm, which a preloaded library does not bring along. Error below 1e-11.
inline double minus_log(double u) {
  const auto bits = std::bit_cast<std::uint64_t>(u);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1), q = s * s;  // ln m = 2 artanh s
  double sum = 1.0 / 15;
  for (const double term : {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0}) sum = sum * q + term;
  return -(exponent * 0.6931471805599453 + 2 * s * sum);
}

// Bytes before the next sample at a mean distance of 2^log2_interval: a block of at least so many is sampled.
inline std::uint64_t next_distance(std::uint64_t& random, unsigned log2_interval) {
  const double u = static_cast<double>((next_random(random) >> 11) + 1) * 0x1p-53;
  return static_cast<std::uint64_t>(minus_log(u) * static_cast<double>(std::uint64_t{1} << log2_interval));
}

// How many blocks a sampled block of `size` bytes stands for; 1 if every block is recorded (log2_interval 0).
inline double blocks_of_sample(std::uint64_t size, unsigned log2_interval) {
  if (log2_interval == 0) return 1;
  return -1 / std::expm1(-(static_cast<double>(size) + 1) / static_cast<double>(std::uint64_t{1} << log2_interval));
}

}  // namespace heapyard::tracer
