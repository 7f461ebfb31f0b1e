// SPDX-License-Identifier: Apache-2.0
// Time in cycles: reads the processor's constant-rate counter, knows what a read costs and how long a cycle is.
//
// x86-64: rdtsc between two lfence (nothing measured leaks out of the bracket); aarch64: cntvct_el0 after isb;
// elsewhere, and on a simulated machine, CLOCK_MONOTONIC in nanoseconds. Cost of now(): about 10 to 25 ns, measured by
// read_cost() and subtracted by users.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/clock.hpp"
#include "base/simulation.hpp"

namespace heapyard::kit {

using Cycles = std::uint64_t;

inline Cycles now() {
  if (is_simulated) return monotonic_ns();
#if defined(__x86_64__)
  std::uint32_t low, high;
  __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
  return static_cast<Cycles>(high) << 32 | low;
#elif defined(__aarch64__)
  Cycles value;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(value)::"memory");
  return value;
#else
  return monotonic_ns();
#endif
}

// Median cost of one now(), in cycles: what each timed section carries besides its work. O(1): 1,001 pairs of reads.
inline Cycles read_cost() {
  std::array<Cycles, 1001> costs;
  for (Cycles& cost : costs) {
    const Cycles start = now();
    cost = now() - start;
  }
  std::nth_element(costs.begin(), costs.begin() + costs.size() / 2, costs.end());
  return costs[costs.size() / 2];
}

// Cycles per second over a whole run: the longer the run, the better. Start it before, ask after.
class CycleRate {
 public:
  CycleRate() : cycles_(now()), ns_(monotonic_ns()) {}
  double per_second() const {
    const std::uint64_t ns = monotonic_ns() - ns_;
    return ns == 0 ? 1e9 : static_cast<double>(now() - cycles_) * 1e9 / static_cast<double>(ns);
  }

 private:
  Cycles cycles_;
  std::uint64_t ns_;
};

}  // namespace heapyard::kit
