// SPDX-License-Identifier: Apache-2.0
// Where a heap asks a listener, the tracer, which of its blocks are samples.
//
// Idea: all blocks of a size class count with the class's size, so the distance to the next sample is a number of
// blocks. That many blocks pass, and the next one is the sample. Drawn like this, each block of the class is a sample
// with the same probability, whatever size was asked for (tracer/session/poisson.hpp). Heaps that count have `kSampled`
// front ends: layers/frontend/sampling.hpp. Cost: a load in slow paths where nobody listens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heapyard::tracing {

// What a heap may do until the next sample.
struct SampleTurn {
  std::uint64_t passes;         // allocations that go by
  std::uint32_t log2_interval;  // of the sample behind them; 0: none yet, ask again
};

// Called without locks of the heap, and without errno being kept. `counted`: bytes of the class, `bytes`: asked for.
struct SampleEvents {
  SampleTurn (*draw)(std::size_t counted) noexcept;
  // It was its turn.
  void (*sampled)(void* block, std::size_t bytes, std::size_t counted, std::uint32_t log2_interval) noexcept;
  // A block of no class: the listener counts its bytes, and it may be a sample.
  void (*allocated)(void* block, std::size_t bytes) noexcept;
  // Before a block that may be a sample goes back; whether it was one.
  bool (*returned)(void* block) noexcept;
};

inline constinit std::atomic<const SampleEvents*> sample_events{nullptr};

inline const SampleEvents* sample_listener() { return sample_events.load(std::memory_order_relaxed); }

}  // namespace heapyard::tracing
