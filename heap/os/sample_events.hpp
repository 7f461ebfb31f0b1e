// SPDX-License-Identifier: Apache-2.0
// Whoever wants a sample of what a heap hands out: the tracer.
//
// Idea: blocks of one size class are all counted with the class's size, so that the distance to the next sample is a
// number of blocks. So many go by, and the next one is the sample. Drawn so, each block of the class is a sample with
// the same probability, whatever was asked of it (tracer/session/poisson.hpp). Heaps for that have `kSampled` front
// ends, which count: layers/frontend/sampling.hpp. Cost: a load in slow paths where nobody listens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heapyard::os {

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

}  // namespace heapyard::os
