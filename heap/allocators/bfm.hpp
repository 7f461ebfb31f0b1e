// SPDX-License-Identifier: Apache-2.0
// BFM, the best fit heap of Finkler, "Handling and Profiling the Increasingly Large and Complex Memory Allocation
// Patterns of the 64 Bit Era" (IBM Research Report, 2004), and its variants: the switches of Figure 13 and what the
// paper leaves open.
//
//   malloc, free      HeapShell
//   what is p?        PrefixMap         a word before each block tells
//   front end         ThreadCache<8>    or NoCache
//   spans             MultiHeap<64>     or one heap
//                     BucketHeap        page records of 1,024 words, blocks below 64 words
//   ranges            BestFitTree       everything else, and the page records
//   pages             SystemPages
#pragma once

#include "heap/core/size_steps.hpp"
#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/backend/observed_ranges.hpp"
#include "heap/layers/frontend/no_cache.hpp"
#include "heap/layers/frontend/sampling.hpp"
#include "heap/layers/frontend/thread_cache.hpp"
#include "heap/layers/heap_shell.hpp"
#include "heap/layers/spans/bucket_heap.hpp"
#include "heap/layers/spans/multi_heap.hpp"
#include "heap/layers/spans/prefix_map.hpp"
#include "heap/layers/tight_blocks.hpp"
#include "heap/os/system_pages.hpp"

namespace heapyard {

// The paper prints two facts of its table: sizes below 6 words exact, 56 to 63 words get 63. With a prefix of one
// word only odd sizes keep blocks at multiples of 16, as the x86-64 and AArch64 ABIs demand: 2 and 4 words become 3
// and 5. Up to 31 words every odd size has a bucket (waste below 13 %), then four per octave.
using BfmSteps = core::SizeSteps<1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 39, 47, 55, 63>;
// Four per octave from 8 words on: fewer buckets, so more reuse, and more waste inside blocks.
using BfmCoarseSteps = core::SizeSteps<1, 3, 5, 7, 9, 11, 13, 15, 19, 23, 27, 31, 39, 47, 55, 63>;

inline constexpr unsigned kBfmHeaps = 64;  // at most; twice the processors are used
inline constexpr unsigned kBfmDepth = 8;   // paper, section 3.4

// Tag: a type of its own makes a heap of its own (docs/layers.md).
//
// Below the front end. Blocks that are aligned to more than 16 bytes are ranges.
template <class Steps, unsigned Heaps, class OnEmpty, class Pages, template <class> class Growth>
struct BfmLayers {
  using Map = PrefixMap<Steps>;
  using Outside = Pages;
  using Large = ObservedRanges<BestFitTree<Pages, Growth<Pages>>>;
  using Pool = MultiHeap<BucketHeap<Steps, Large, OnEmpty>, Large, Heaps>;
  using Tight = NoTightBlocks;
  static constexpr Map map{};
  static constexpr Tight tight{};
};

template <class Steps, unsigned Heaps, unsigned Depth, class OnEmpty = GiveBack, class Pages = os::SystemPages,
          template <class> class Growth = HugeSteps, class Sampling = NotSampled, class Tag = void>
struct BfmParts : BfmLayers<Steps, Heaps, OnEmpty, Pages, Growth> {
  using typename BfmLayers<Steps, Heaps, OnEmpty, Pages, Growth>::Large;
  using typename BfmLayers<Steps, Heaps, OnEmpty, Pages, Growth>::Pool;
  using Front = typename Sampling::template Of<ThreadCache<Pool, Large, Depth, BfmParts>>;
  using Samples = SamplesOf<Sampling, BfmParts, BestFitTree<Pages>>;
  static inline constinit Large large;
  static inline constinit Pool pool{large};
  static inline constinit Front front{pool, large};
};

template <class Steps, unsigned Heaps, class Pages = os::SystemPages, template <class> class Growth = HugeSteps,
          class Tag = void>
struct BfmPartsNoCache : BfmLayers<Steps, Heaps, GiveBack, Pages, Growth> {
  using typename BfmLayers<Steps, Heaps, GiveBack, Pages, Growth>::Large;
  using typename BfmLayers<Steps, Heaps, GiveBack, Pages, Growth>::Pool;
  using Front = NoCache<Pool, BfmPartsNoCache>;
  using Samples = NoSampledBlocks;
  static inline constinit Large large;
  static inline constinit Pool pool{large};
  static inline constinit Front front{pool};
};

using Bfm = HeapShell<BfmParts<BfmSteps, kBfmHeaps, kBfmDepth>>;
// Figure 13.
using BfmSingle = HeapShell<BfmPartsNoCache<BfmSteps, 1>>;
using BfmMulti = HeapShell<BfmPartsNoCache<BfmSteps, kBfmHeaps>>;
using BfmCache = HeapShell<BfmParts<BfmSteps, 1, kBfmDepth>>;
// What the paper leaves open.
using BfmCoarse = HeapShell<BfmParts<BfmCoarseSteps, kBfmHeaps, kBfmDepth>>;
using BfmKeepLast = HeapShell<BfmParts<BfmSteps, kBfmHeaps, kBfmDepth, KeepLast>>;
using BfmSmallPages = HeapShell<BfmParts<BfmSteps, kBfmHeaps, kBfmDepth, GiveBack, os::SystemPages, SmallSteps>>;
// Not of the literature: for the tracer.
using BfmSampled = HeapShell<BfmParts<BfmSteps, kBfmHeaps, kBfmDepth, GiveBack, os::SystemPages, HugeSteps, Sampled>>;

}  // namespace heapyard
