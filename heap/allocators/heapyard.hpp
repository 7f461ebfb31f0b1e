// SPDX-License-Identifier: Apache-2.0
// heapyard, our own: small spans of pages that every class shares, nothing in band, magazines within a budget.
//
//   malloc, free      PageHeap      the class of a block is that of its page, in a table
//   front end         Magazines     an array per thread and class, which grows as far as a budget allows
//                     Depot         batches that threads exchange
//   spans             PageSpans     a bit per block, lowest address first
//   ranges            PageRuns      runs of 4 KiB pages by best fit; what is free and dirty is bounded
//                     PageSpace     addresses that go back where a limit is met
//                     PageMap       class, run and state of each page, out of band
//                     PageWindow    one window of address space
//   large blocks      PageRuns      up to 1 GiB
//                     LoneRanges    a mapping each
//   limit             BoundedPages  what lies outside of the window counts against a limit
//   pages             SystemPages
// docs/allocator.md says why; docs/allocator-log.md what else was tried.
#pragma once

#include "heap/layers/backend/lone_ranges.hpp"
#include "heap/layers/backend/memory_limit.hpp"
#include "heap/layers/backend/observed_ranges.hpp"
#include "heap/layers/backend/outside_spans.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/layers/backend/page_runs.hpp"
#include "heap/layers/backend/page_window.hpp"
#include "heap/layers/frontend/magazines.hpp"
#include "heap/layers/hardened_heap.hpp"
#include "heap/layers/page_heap.hpp"
#include "heap/layers/spans/page_spans.hpp"
#include "heap/os/system_pages.hpp"

namespace heapyard {

// Tag: heaps of different tags share nothing.
template <class PagesT = os::SystemPages, class WindowT = PageWindow<PagesT>, class Tag = void>
struct HeapyardParts {
  using Pages = PagesT;
  using Window = WindowT;
  using Map = PageMap<Window>;
  using Runs = PageRuns<Map>;
  using Outside = BoundedPages<OutsideSpans<Pages, HeapyardParts>, HeapyardParts>;
  using Pool = PageSpans<Runs, Outside>;
  using Front = Magazines<Pool, Outside, HeapyardParts>;
  using Large = ObservedRanges<LoneRanges<Outside>>;
  static inline constinit Window spans;
  static inline constinit Map map{spans};
  static inline constinit Runs runs{map};
  static inline constinit Pool pool{runs};
  static inline constinit Front front{pool};
  static inline constinit Large large;
};

using Heapyard = PageHeap<HeapyardParts<>>;
using HeapyardHardened = HardenedHeap<Heapyard>;

}  // namespace heapyard
