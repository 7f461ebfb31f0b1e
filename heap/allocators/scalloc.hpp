// scalloc, the span-based allocator of Aigner, Kirsch, Lippautz, Sokolova, "Fast, Multicore-Scalable,
// Low-Fragmentation Memory Allocation through Large Virtual Memory and Global Data Structures" (OOPSLA 2015), and
// the variants of its artifact.
//
//   malloc, free      MaskHeap            a block's span is found by masking its address
//   front end         AllocationBuffer    per thread a hot span and a list of reusable ones for each size class
//   spans             ListSpan            local list, remote stack, epoch
//   pool              SpanPool            free spans on a stack per processor and size of real span
//   ranges            VirtualSpans        2 MiB each, cut from one reservation
//   pages             SystemPages
#pragma once

#include "heap/layers/backend/span_pool.hpp"
#include "heap/layers/backend/virtual_spans.hpp"
#include "heap/layers/frontend/allocation_buffer.hpp"
#include "heap/layers/mask_heap.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/os/system_pages.hpp"

namespace heapyard {

inline constexpr unsigned kScallocBackends = 64;  // stacks of a slot, at most: as many as processors are used

template <class Policy = EagerMadvise, unsigned Backends = kScallocBackends, unsigned Percent = 80,
          class PagesT = os::SystemPages, class SpansT = VirtualSpans<PagesT>>
struct ScallocParts {
  using Pages = PagesT;
  using Spans = SpansT;
  using Pool = SpanPool<ListSpan, Spans, Pages, Policy, Backends>;
  using Front = AllocationBuffer<Pool, Pages, Percent>;
  static inline constinit Spans spans;
  static inline constinit Pool pool{spans};
  static inline constinit Front front{pool};
};

using Scalloc = MaskHeap<ScallocParts<>>;
using ScallocNoMadvise = MaskHeap<ScallocParts<NoMadvise>>;
using ScallocOneBackend = MaskHeap<ScallocParts<EagerMadvise, 1>>;
using ScallocNoReuse = MaskHeap<ScallocParts<EagerMadvise, kScallocBackends, 100>>;

}  // namespace heapyard
