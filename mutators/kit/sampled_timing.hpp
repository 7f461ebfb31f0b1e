// SPDX-License-Identifier: Apache-2.0
// Times every n-th operation on its own; the others carry a decrement. O(1). One thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cycle_clock.hpp"
#include "latency_histogram.hpp"

namespace heapyard::kit {

struct SampledTiming {
  LatencyHistogram* histogram = nullptr;  // cycles, the cost of reading the clock subtracted
  std::uint64_t period = 0;
  Cycles read_cost = 0;
  std::uint64_t left = 1;  // the first one is timed

  template <class Operation>
  auto around(Operation operation) {
    if (--left != 0) return operation();
    left = period;
    const Cycles start = now();
    if constexpr (std::is_void_v<decltype(operation())>) {
      operation();
      add(now() - start);
    } else {
      const auto result = operation();
      add(now() - start);
      return result;
    }
  }

 private:
  void add(Cycles cycles) { histogram->add(cycles > read_cost ? cycles - read_cost : 0); }
};

}  // namespace heapyard::kit
