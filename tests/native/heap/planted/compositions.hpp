// SPDX-License-Identifier: Apache-2.0
// The heaps into which faults are planted.
#pragma once

#include "heap/allocators/heapyard.hpp"
#include "heap/allocators/scalloc.hpp"
#include "planted_concurrency.hpp"
#include "planted_heap.hpp"

namespace heapyard::test {

using PlantedHeapyard =
    PlantedHeap<PageHeap<HeapyardParts<os::SystemPages, PageWindow<os::SystemPages>, struct PlantedTag>>>;

// scalloc over atomics and locks that may be faulty.
struct PlantedScallocParts {
  using Pages = os::SystemPages;
  using Spans = ScallocDefaults::Spans;
  using Classes = ScallocDefaults::Classes;
  using Span = ListSpanOf<PlantedConcurrency>;
  using Pool = SpanPool<Classes, Span, Spans, EagerMadvise, kScallocBackends>;
  using Buffer = AllocationBuffer<Classes, Pool, kScallocReuse, EagerCleanup, ReusableDeque>;
  using Front = ThreadBuffers<Buffer, Pages, PlantedScallocParts>;
  using Map = VirtualSpanMap<Classes, Spans, Span>;
  using Short = ShortSpace<Pages, PlantedScallocParts>;
  using Outside = Short::Outside;
  using Large = Short::Large;
  using Tight = Short::Tight;
  using Samples = NoSampledBlocks;
  static inline constinit Spans spans;
  static constexpr Map map{spans};
  static inline constinit Pool pool{spans};
  static inline constinit Front front{pool};
  static inline constinit Short::Tree spare;
  static inline constinit Large large{spare};
  static inline constinit Tight tight{spare};
};
using PlantedScalloc = PlantedHeap<HeapShell<PlantedScallocParts>>;

}  // namespace heapyard::test
