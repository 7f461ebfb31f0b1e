// SPDX-License-Identifier: Apache-2.0
// A fourth heap, composed in an afternoon: scalloc's spans below 1 MiB, BFM's best fit tree above.
//
// scalloc maps and unmaps every block above 1 MiB: a system call and page faults each time. BFM's tree keeps such
// ranges, joins neighbours and reuses them, and has no good answer to many threads. Together they cover each other.
// docs/layers.md tells how this file came about.
//
//   malloc, free      HeapShell
//   what is p?        VirtualSpanMap      a block's span is found by masking its address
//   front end         ThreadBuffers       scalloc
//   spans, pool       AllocationBuffer, ListSpan, SpanPool, VirtualSpans    scalloc
//   large blocks      BestFitTree         BFM
#pragma once

#include "heap/allocators/scalloc.hpp"
#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/backend/observed_ranges.hpp"
#include "heap/layers/backend/growth.hpp"

namespace heapyard::examples {

// Everything is scalloc's, but for where large blocks come from.
struct FourthParts : ScallocParts<ScallocDefaults, struct FourthTag> {
  using Large = ObservedRanges<BestFitTree<Outside, HugeSteps<Outside>>>;
  using Tight = TightOver<Large>;
  static inline constinit Large large;
  static inline constinit Tight tight{large};
};

using Fourth = HeapShell<FourthParts>;

}  // namespace heapyard::examples
