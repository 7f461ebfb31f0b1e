// SPDX-License-Identifier: Apache-2.0
// One thread of a mutator: its number, its bookkeeping memory, and what it has done so far.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena.hpp"
#include "base/random.hpp"
#include "latency_histogram.hpp"
#include "operation_log.hpp"
#include "shared_sum.hpp"

namespace heapyard::kit {

// Operations of one phase. Written by the thread itself.
struct Tally {
  std::uint64_t allocations = 0;    // malloc, calloc, aligned_alloc, realloc of nothing
  std::uint64_t releases = 0;       // free
  std::uint64_t reallocations = 0;  // realloc of an object
  std::uint64_t bytes = 0;          // asked for
  std::uint64_t sequence = 0;       // fold of objects and sizes in the order of allocation
  std::uint64_t released = 0;       // fold of the objects released, whatever the order
  std::uint64_t contents = 0;       // sum of what the workload read from objects, where it reads any

  std::uint64_t operations() const { return allocations + releases + reallocations; }
  void add(const Tally& other) {
    allocations += other.allocations;
    releases += other.releases;
    reallocations += other.reallocations;
    bytes += other.bytes;
    released += other.released;
    contents += other.contents;
  }
};

// Part `index` of `all` shared out among `parts`: equal, and one more for the first few.
constexpr std::uint64_t share(std::uint64_t all, std::size_t parts, std::size_t index) {
  return all / parts + (index < all % parts);
}

enum class Phase : std::uint8_t { kBefore, kMeasured, kAfter };
inline constexpr std::size_t kPhases = 3;

struct Latencies {
  LatencyHistogram of[kCalls];  // cycles, the cost of reading the clock subtracted
};

struct alignas(2 * kCacheLine) Worker {
  // The workload's own memory of this thread, zeroed and resident from the start. T is the workload's secret.
  template <class T>
  void make_table(std::size_t count) {
    table_ = arena.take<T>(count);
  }
  template <class T>
  T* table() const {
    return static_cast<T*>(table_);
  }

  std::size_t index = 0;
  Arena arena;
  Random random{0};
  Tally tally[kPhases];
  SharedSum live;                              // bytes held, for workloads that track them: sum over the workers
  std::uint64_t started_ns = 0, ended_ns = 0;  // the measured phase
  Latencies* latencies = nullptr;              // with --latency
  std::uint64_t latency_period = 0, read_cost = 0;
  OperationLog log;

 private:
  void* table_ = nullptr;
};

}  // namespace heapyard::kit
