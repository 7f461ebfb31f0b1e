// SPDX-License-Identifier: Apache-2.0
// What one thread did and how long it took. Written by its thread alone; the byte counts are read by the sampler
// meanwhile.
#pragma once

#include <cstdint>

#include "../kit/arena.hpp"
#include "../kit/cycle_clock.hpp"
#include "../kit/latency_histogram.hpp"
#include "../kit/shared_sum.hpp"

namespace heapyard::acdc {

// Cycles inside timed sections and how many there were: each carries the cost of reading the counter once.
struct Timed {
  kit::Cycles cycles;
  std::uint64_t sections;

  void add(kit::Cycles start, kit::Cycles end) {
    cycles += end - start;
    ++sections;
  }
  kit::Cycles net(kit::Cycles read_cost) const {
    const kit::Cycles overhead = sections * read_cost;
    return cycles > overhead ? cycles - overhead : 0;
  }
};

inline constexpr std::size_t kSizeExponents = 48;

struct alignas(2 * kit::kCacheLine) Counters {
  kit::SharedSum bytes_allocated, bytes_freed;
  kit::SharedSum clock;
  std::uint64_t objects_allocated, objects_freed;
  std::uint64_t calls_allocated, calls_freed;  // of malloc and free: fewer than objects with compact placement
  std::uint64_t classes, classes_shared, classes_permanent;
  std::uint64_t objects_drained, bytes_drained;  // freed after the run, outside every measurement
  Timed allocation, deallocation, access;
  std::uint64_t objects_accessed, objects_written, accesses;
  std::uint64_t checksum;  // of the sequence of draws
  kit::Cycles running;
  std::uint64_t by_size_exponent[kSizeExponents];
  std::uint64_t* by_liveness;  // [0, max liveness]
  kit::LatencyHistogram* malloc_latency;
  kit::LatencyHistogram* free_latency;
};

}  // namespace heapyard::acdc
