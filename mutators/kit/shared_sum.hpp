// SPDX-License-Identifier: Apache-2.0
// A sum that others may read while its thread changes it: plain moves on the machine. Wraps like any unsigned. All
// bytes zero is a sum of nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace heapyard::kit {

class SharedSum {
 public:
  void add(std::uint64_t value) { value_.store(read() + value, std::memory_order_relaxed); }
  void subtract(std::uint64_t value) { value_.store(read() - value, std::memory_order_relaxed); }
  std::uint64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace heapyard::kit
