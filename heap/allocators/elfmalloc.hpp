// SPDX-License-Identifier: Apache-2.0
// elfmalloc, the slab allocator of Liebow-Feeser, Rosen and others (allocators-rs, 2017), and its variants.
//
//   malloc, free      HeapShell
//   what is p?        SlabMap          a block's slab is found by masking its address
//   front end         MagazineCache    a stack of free objects per thread and class, of any slab or of its own
//   spans             SlabHeap         slabs offered to all, in a few rings per class
//                     BitsetSlab       a bitset of the free objects, and one word of state
//   pool              SpanPool         empty slabs' pages, of 256 KiB and of 2 MiB
//   ranges            PageGroups       eight small pages or a big one from each virtual span
//                     VirtualSpans     2 MiB each, cut from one window
//   large blocks      LoneRanges       a mapping each
//   short of space    TightBlocks      BFM's page records and tree
//   pages             SystemPages
#pragma once

#include "heap/policy/slab_classes.hpp"
#include "heap/allocators/short_space.hpp"
#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/backend/page_groups.hpp"
#include "heap/layers/backend/span_pool.hpp"
#include "heap/layers/backend/virtual_spans.hpp"
#include "heap/layers/frontend/magazine_cache.hpp"
#include "heap/layers/frontend/sampling.hpp"
#include "heap/layers/heap_shell.hpp"
#include "heap/layers/spans/bitset_slab.hpp"
#include "heap/layers/spans/slab_heap.hpp"
#include "heap/layers/spans/slab_map.hpp"
#include "heap/os/system_pages.hpp"

namespace heapyard {

inline constexpr unsigned kElfRings = 4;      // of listed slabs, per class
inline constexpr unsigned kElfBackends = 64;  // stacks of empty pages: as many as processors are used

// Tag: a type of its own makes a heap of its own (docs/layers.md).
template <class Capacity, class PagesT = os::SystemPages, class SpansT = VirtualSpans<PagesT, policy::slab::kBigPage>,
          class Sampling = NotSampled, class Tag = void>
struct ElfmallocParts {
  using Pages = PagesT;
  using Spans = SpansT;
  using Map = SlabMap<Spans>;
  template <bool Big>
  using Groups = PageGroups<BitsetSlab, Spans, policy::slab::kSmallPage, Big>;
  template <bool Big>
  using PagePool = SpanPool<policy::SlabClasses, BitsetSlab, Groups<Big>, EagerMadvise, kElfBackends>;
  using Pool = SlabHeap<PagePool<false>, PagePool<true>, kElfRings>;
  using Front = typename Sampling::template Of<MagazineCache<Pool, Map, Pages, Capacity, ElfmallocParts>>;
  using Short = ShortSpace<Pages, ElfmallocParts>;
  using Outside = typename Short::Outside;
  using Large = typename Short::Large;
  using Tight = typename Short::Tight;
  using Samples = SamplesOf<Sampling, ElfmallocParts, BestFitTree<Outside>>;
  static inline constinit Spans spans;
  static constexpr Map map{spans};
  static inline constinit Groups<false> small_groups{spans};
  static inline constinit Groups<true> big_groups{spans};
  static inline constinit PagePool<false> small_pages{small_groups};
  static inline constinit PagePool<true> big_pages{big_groups};
  static inline constinit Pool pool{small_pages, big_pages};
  static inline constinit Front front{pool};
  static inline constinit typename Short::Tree spare;
  static inline constinit Large large{spare};
  static inline constinit Tight tight{spare};
};

using Elfmalloc = HeapShell<ElfmallocParts<MagazineCapacity>>;
using ElfmallocAsBuilt = HeapShell<ElfmallocParts<MagazineCapacityAsBuilt>>;
// Not of the literature: for the tracer.
using ElfmallocSampled = HeapShell<
    ElfmallocParts<MagazineCapacity, os::SystemPages, VirtualSpans<os::SystemPages, policy::slab::kBigPage>, Sampled>>;
using ElfmallocL = HeapShell<ElfmallocParts<OwnSlabOnly>>;

}  // namespace heapyard
