// SPDX-License-Identifier: Apache-2.0
// Whether runs of pages, and the spans in them, keep their INVARIANTs.
#pragma once

#include <bit>
#include <cstdint>

#include "heap/layers/backend/page_runs.hpp"
#include "heap/layers/spans/page_spans.hpp"

namespace heapyard {

template <RunMap Map>
bool PageRuns<Map>::consistent() {
  const os::Locked locked(lock_);
  std::uint32_t used = 0, large = 0, dirty = 0, pages = 0, gone = 0;
  bool right = true;
  PageRun::Kind before = PageRun::kNone;
  for (std::uint32_t page = map_.first_page(); space_.there() != 0 && page < space_.top();) {
    const PageRun* run = map_.run_of(page);
    if (run->kind == PageRun::kNone || run->page != page) {  // before a piece of the window
      before = PageRun::kNone;
      ++page;
      continue;
    }
    right &= run->pages != 0 && map_.run_of(page + run->pages - 1) == run;
    if (run->kind == PageRun::kFree) {
      right &= before != PageRun::kFree && run->dirty == map_.dirty_in(page, run->pages);
      right &= run->dirty == 0 || (run->low >= page && run->high <= page + run->pages &&
                                   map_.dirty_in(run->low, run->high - run->low) == run->dirty);
      right &= free_.holds(run);
      dirty += run->dirty;
    } else if (run->kind == PageRun::kGone) {
      right &= before != PageRun::kGone && map_.dirty_in(page, run->pages) == 0 && space_.holds(run);
      gone += run->pages;
    } else {
      right &= run->kind == PageRun::kSpan || run->kind == PageRun::kLarge;
      right &= map_.dirty_in(page, run->pages) == run->pages;
      used += run->pages;
      if (run->kind == PageRun::kLarge) large += run->pages;
      for (std::uint32_t at = page; at < page + run->pages; ++at) {
        const void* const memory = reinterpret_cast<void*>(map_.address_of(at));
        const bool named = run->kind == PageRun::kSpan && run->owner == 0;  // a first-class heap names no class
        right &= Map::class_of(map_.window(), memory) == (named ? run->size_class : 0);
        if (run->kind == PageRun::kSpan) right &= map_.run_of(at) == run;
      }
    }
    before = run->kind;
    pages += run->pages;
    page += run->pages;
  }
  return right && used == budget_.used() && large == budget_.large() && dirty == budget_.dirty() &&
         pages - gone == space_.there();
}

template <RunSource Runs, PageSource Pages, unsigned Parts>
bool PageSpans<Runs, Pages, Parts>::consistent() {
  bool right = true;
  for (unsigned i = 0; i < there() * kClasses; ++i) {
    const unsigned c = i % kClasses, part = i / kClasses;
    if (c == 0) continue;
    Spans& spans = at(c, part);
    const os::Locked locked(spans.lock);
    right &= spans.lowest == spans.first();
    if (spans.tree.empty()) continue;
    for (const TreeNode* at = spans.tree.last(0); at != spans.tree.nil(); at = spans.tree.neighbour(at, 1)) {
      const auto* span = static_cast<const PageRun*>(at);
      unsigned free = 0;
      for (unsigned word = 0; word < Classes::kMostBlocks / 64; ++word) {
        free += static_cast<unsigned>(std::popcount(span->free[word]));
        right &= word >= span->first_word || span->free[word] == 0;
      }
      right &= span->kind == PageRun::kSpan && span->size_class == c && span->part == part;
      right &= free == span->free_blocks && free != 0;
      right &= free < span->blocks || span->blocks == Classes::blocks_of(c, span->pages);
    }
  }
  return right;
}

}  // namespace heapyard
