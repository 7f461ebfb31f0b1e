// SPDX-License-Identifier: Apache-2.0
// What a heap with spans has for when address space is short, or threads are very many: BFM's tree for ranges, and its
// page records over it for blocks of size classes.
#pragma once

#include "heap/allocators/bfm.hpp"
#include "heap/layers/backend/lone_ranges.hpp"
#include "heap/layers/backend/outside_spans.hpp"
#include "heap/layers/backend/spare_ranges.hpp"
#include "heap/layers/tight_blocks.hpp"

namespace heapyard {

inline constexpr unsigned kTightHeaps = 8;  // of page records

template <class Ranges>
using TightOver = TightBlocks<BfmSteps, MultiHeap<BucketHeap<BfmSteps, Ranges>, Ranges, kTightHeaps>, Ranges>;

// Owner: the composition's parts.
template <class Pages, class Owner>
struct ShortSpace {
  using Outside = OutsideSpans<Pages, Owner>;
  using Tree = ObservedRanges<BestFitTree<Outside>>;
  using Large = SpareRanges<ObservedRanges<LoneRanges<Outside>>, Tree, Outside>;
  using Tight = TightOver<Tree>;
};

}  // namespace heapyard
