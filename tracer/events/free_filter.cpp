// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/free_filter.hpp"

#include "tracer/events/next_malloc.hpp"

namespace heapyard::tracer {
namespace {

constinit SampleCount no_free[kSampleCounts] = {};     // but those of early blocks
constinit SampleCount every_free[kSampleCounts] = {};  // is its first count, once a session is exact

// A free of an early block must find a yes even if it loads a mask and then, of a table set meanwhile, the count. So
// each table has them by place, and whoever comes after every_free its first count too.
void watch(SampleCount* counts) {
  if (free_filter.mask.load() == 0) change(counts[0], 1);
  free_filter.mask.store(kSampleCounts - 1);
  free_filter.counts.store(counts);
  if (counts == every_free) free_filter.mask.store(0);
}

}  // namespace

constinit FreeFilter free_filter{no_free, kSampleCounts - 1};

void watch_no_free() { watch(no_free); }
void watch_every_free() {
  every_free[0].store(1);
  watch(every_free);
}
void watch_frees_near(SampleCount* samples) { watch(samples); }

void watch_early_blocks() {
  watch_early_blocks_in(no_free);
  watch_early_blocks_in(every_free);
}
void watch_early_blocks_in(SampleCount* filter) {
  for (std::size_t offset = 0; offset < EarlyBlocks::kBytes; offset += kSampleReach)
    change(filter[count_place(early_blocks.begin() + offset)], 1);
}

}  // namespace heapyard::tracer
