// SPDX-License-Identifier: Apache-2.0
// scalloc, the span-based allocator of Aigner, Kirsch, Lippautz, Sokolova, "Fast, Multicore-Scalable,
// Low-Fragmentation Memory Allocation through Large Virtual Memory and Global Data Structures" (OOPSLA 2015), and
// its variants: those of the artifact, and those that switch off one idea each.
//
//   malloc, free      HeapShell
//   what is p?        VirtualSpanMap      a block's span is found by masking its address
//   front end         ThreadBuffers       an allocation buffer for each thread, or
//                     CoreBuffers         for each processor
//   spans             AllocationBuffer    a hot span and a list of reusable ones for each size class
//                     ListSpan            local list, remote stack, epoch
//   pool              SpanPool            free spans on a stack per processor and size of real span
//   ranges            VirtualSpans        2 MiB each, cut from one window
//   large blocks      LoneRanges          a mapping each
//   short of space    TightBlocks         BFM's page records and tree
//   pages             SystemPages
#pragma once

#include <type_traits>

#include "heap/policy/scalloc_classes.hpp"
#include "heap/allocators/short_space.hpp"
#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/backend/span_pool.hpp"
#include "heap/layers/backend/virtual_spans.hpp"
#include "heap/layers/frontend/core_buffers.hpp"
#include "heap/layers/frontend/sampling.hpp"
#include "heap/layers/frontend/thread_buffers.hpp"
#include "heap/layers/heap_shell.hpp"
#include "heap/layers/spans/allocation_buffer.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/layers/spans/virtual_span_map.hpp"
#include "heap/os/system_pages.hpp"

namespace heapyard {

inline constexpr unsigned kScallocBackends = 64;  // stacks of a slot, at most: as many as processors are used
inline constexpr unsigned kScallocColours = 8;    // places at which a span may begin: ours
inline constexpr unsigned kScallocReuse = 80;     // percent of a span's blocks that must be free to reuse it

// The published choices; a variant overrides one.
struct ScallocDefaults {
  using Pages = os::SystemPages;
  using Spans = VirtualSpans<Pages, std::size_t{2} << 20, kScallocColours>;
  using Classes = policy::ScallocClasses<Spans::kSpan, Spans::kColouring>;
  using OnEmpty = EagerMadvise;
  using Cleanup = EagerCleanup;
  template <class Span>
  using Reusable = ReusableDeque<Span>;
  static constexpr unsigned kBackends = kScallocBackends;
  static constexpr unsigned kReuse = kScallocReuse;
  static constexpr bool kPerCore = false;
  using Sampling = NotSampled;
};

// Tag: a type of its own makes a heap of its own (docs/layers.md).
template <class Choices = ScallocDefaults, class Tag = void>
struct ScallocParts {
  using Sampling = typename Choices::Sampling;
  using Pages = typename Choices::Pages;
  using Classes = typename Choices::Classes;
  using Spans = typename Choices::Spans;
  using Span = ListSpan;
  using Pool = SpanPool<Classes, Span, Spans, typename Choices::OnEmpty, Choices::kBackends>;
  using Buffer =
      AllocationBuffer<Classes, Pool, Choices::kReuse, typename Choices::Cleanup, Choices::template Reusable>;
  using Front = std::conditional_t<Choices::kPerCore, CoreBuffers<Buffer, kScallocBackends, ScallocParts>,
                                   typename Sampling::template Of<ThreadBuffers<Buffer, Pages, ScallocParts>>>;
  using Map = VirtualSpanMap<Classes, Spans, Span>;
  using Short = ShortSpace<Pages, ScallocParts>;
  using Outside = typename Short::Outside;
  using Large = typename Short::Large;
  using Tight = typename Short::Tight;
  using Samples = SamplesOf<Sampling, ScallocParts, BestFitTree<Outside>>;
  static inline constinit Spans spans;
  static constexpr Map map{spans};
  static inline constinit Pool pool{spans};
  static inline constinit Front front{pool};
  static inline constinit typename Short::Tree spare;
  static inline constinit Large large{spare};
  static inline constinit Tight tight{spare};
};

using Scalloc = HeapShell<ScallocParts<>>;

// Those of the artifact.
struct ScallocKeepsMemory : ScallocDefaults {
  using OnEmpty = NoMadvise;
};
struct ScallocWithOneBackend : ScallocDefaults {
  static constexpr unsigned kBackends = 1;
};
struct ScallocWithoutReuse : ScallocDefaults {
  static constexpr unsigned kReuse = 100;
};
struct ScallocUncoloured : ScallocDefaults {
  using Classes = policy::ScallocClasses<>;
  using Spans = VirtualSpans<Pages, Classes::kVirtualSpan>;
};
struct ScallocLazy : ScallocDefaults {
  using Cleanup = LazyCleanup;
};
struct ScallocLazyAsBuilt : ScallocDefaults {
  using Cleanup = CleanupAsBuilt;
};
using ScallocNoMadvise = HeapShell<ScallocParts<ScallocKeepsMemory>>;
using ScallocOneBackend = HeapShell<ScallocParts<ScallocWithOneBackend>>;
using ScallocNoReuse = HeapShell<ScallocParts<ScallocWithoutReuse>>;
using ScallocOneColour = HeapShell<ScallocParts<ScallocUncoloured>>;
using ScallocLazyCleanup = HeapShell<ScallocParts<ScallocLazy>>;
using ScallocLazyCleanupAsBuilt = HeapShell<ScallocParts<ScallocLazyAsBuilt>>;

// The other list, the other front end, and other virtual spans.
struct ScallocWithStacks : ScallocDefaults {
  template <class Span>
  using Reusable = ReusableStack<Span>;
};
struct ScallocPerCore : ScallocDefaults {
  static constexpr bool kPerCore = true;
};
template <std::size_t Bytes, bool Whole = false, unsigned Share = 2>
struct ScallocSpansOf : ScallocDefaults {
  using Spans = VirtualSpans<Pages, Bytes, kScallocColours>;
  using Classes = policy::ScallocClasses<Bytes, Spans::kColouring, Whole, Share>;
};
// What virtual spans cost in page tables, and the idea without that: of spans of 64 KiB 32 share a page table. Real
// spans fill them. Blocks above a quarter of a span come from BFM's tree, for a mapping each would be many.
struct ScallocOfSmallSpans : ScallocSpansOf<std::size_t{64} << 10, true, 4> {};
struct ScallocSharedTablesParts : ScallocParts<ScallocOfSmallSpans> {
  using Large = ObservedRanges<BestFitTree<Outside, HugeSteps<Outside>>>;
  static inline constinit Large large;
  using Tight = TightOver<Large>;
  static inline constinit Tight tight{large};
};
using ScallocSharedTables = HeapShell<ScallocSharedTablesParts>;
// Not of the literature: for the tracer.
struct ScallocWithSamples : ScallocDefaults {
  using Sampling = heapyard::Sampled;
};
using ScallocSampled = HeapShell<ScallocParts<ScallocWithSamples>>;
using ScallocStack = HeapShell<ScallocParts<ScallocWithStacks>>;
using ScallocClab = HeapShell<ScallocParts<ScallocPerCore>>;
using ScallocSmallSpans = HeapShell<ScallocParts<ScallocSpansOf<std::size_t{256} << 10>>>;
using ScallocLargeSpans = HeapShell<ScallocParts<ScallocSpansOf<std::size_t{8} << 20>>>;
using ScallocWholeSpans = HeapShell<ScallocParts<ScallocSpansOf<std::size_t{2} << 20, true>>>;

}  // namespace heapyard
