// SPDX-License-Identifier: Apache-2.0
// Which frees are looked at: none, those near a sampled block, or every one.
//
// Idea: the fast path of free loads one count by place and looks no further while it is zero. Which counts those are
// changes with the mode: where every free is recorded they are one and the same, so that no others take room in the
// processor's caches. Cost: O(1) per free, two loads. Threads: any; it changes seldom, and no lock is taken. Signals:
// any. A free of an early block finds a yes whatever the mode, also while that changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/session/sample_filter.hpp"

namespace heapyard::tracer {

struct FreeFilter {
  std::atomic<SampleCount*> counts;  // kSampleCounts of them
  std::atomic<std::size_t> mask;     // of their places
};
extern FreeFilter free_filter __attribute__((visibility("hidden")));  // so that its address is no load

// Whether a free of `block` has to be looked at.
inline bool watched(const void* block) {
  const std::size_t place =
      reinterpret_cast<std::uintptr_t>(block) / kSampleReach & free_filter.mask.load(std::memory_order_acquire);
  return free_filter.counts.load(std::memory_order_relaxed)[place].load(std::memory_order_relaxed) != 0;
}

// O(1) each.
void watch_no_free();
void watch_every_free();
void watch_frees_near(SampleCount* samples);

// Frees of the early blocks come the long way from now on: whatever the mode, or with a filter of samples.
void watch_early_blocks();
void watch_early_blocks_in(SampleCount* filter);

}  // namespace heapyard::tracer
