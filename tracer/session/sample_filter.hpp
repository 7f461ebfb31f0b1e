// SPDX-License-Identifier: Apache-2.0
// How many sampled blocks lie near an address: none on nearly every free, which then costs one load.
//
// Idea: a count of a byte for each 512 bytes of the heap, so that of a program that frees at random few frees meet
// somebody else's sample, and a small heap's counts take few lines of the cache; modulo 128 MiB. A count that has
// reached 255 stays there: from then on it says "maybe". Threads: any. Cost: O(1).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heapyard::tracer {

using SampleCount = std::atomic<std::uint8_t>;
inline constexpr std::size_t kSampleCounts = 1u << 18;
inline constexpr std::size_t kSampleReach = 512;
inline constexpr std::size_t count_place(std::uintptr_t address) {
  return address / kSampleReach & (kSampleCounts - 1);
}

inline void change(SampleCount& count, int by) {
  std::uint8_t had = count.load(std::memory_order_relaxed);
  while (had != 255 &&
         !count.compare_exchange_weak(had, static_cast<std::uint8_t>(had + by), std::memory_order_relaxed)) {
  }
}

}  // namespace heapyard::tracer
