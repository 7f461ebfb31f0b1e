// SPDX-License-Identifier: Apache-2.0
// The sizes that shbench asks for, as runs of equal sizes that repeat.
#pragma once

#include <cstdint>

#include "../kit/arena.hpp"

namespace heapyard::shbench {

struct SizeRun {
  std::uint64_t size;   // bytes
  std::uint64_t count;  // objects in a row
};

struct SizeCycle {
  SizeRun* runs = nullptr;
  std::size_t length = 0;
  std::uint64_t objects = 0;  // of all runs

  void add(std::uint64_t size, std::uint64_t count) {
    runs[length++] = {size, count};
    objects += count;
  }
};

inline constexpr std::size_t kMostRuns = 4096;  // bases below 2^30: 52, each halved at most 30 times

// Bases b = low, then 3b/2 + 1 while b < high; of each base the sizes b, b/2, b/4, ... not below `low`; small sizes
// come in longer runs. (The original halves down to 1 whatever the lower bound.) At least one size. O(log^2 high).
inline void sweep_of_sh6(SizeCycle& cycle, std::uint64_t low, std::uint64_t high) {
  const auto in_a_row = [](std::uint64_t size) -> std::uint64_t {
    return size < 100 ? 250 : size < 1000 ? 50 : size < 10'000 ? 10 : 1;
  };
  std::uint64_t base = low;
  do {
    for (std::uint64_t size = base; size >= low && size > 0; size /= 2) cycle.add(size, in_a_row(size));
    base = 3 * base / 2 + 1;
  } while (base < high);
}

// Twelve fixed runs: mostly small, a few up to 165 KiB.
inline void cycle_of_sh8(SizeCycle& cycle) {
  constexpr SizeRun kRuns[] = {{8, 1000}, {16, 5000}, {48, 1000}, {72, 100}, {148, 100}, {200, 100},
                               {520, 10}, {1056, 5},  {4096, 3},  {9162, 1}, {34562, 1}, {168524, 1}};
  for (const SizeRun& run : kRuns) cycle.add(run.size, run.count);
}

}  // namespace heapyard::shbench
