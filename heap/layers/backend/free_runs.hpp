// SPDX-License-Identifier: Apache-2.0
// The free runs of pages: two trees, one of runs with dirty pages, one of all zeros.
//
// Idea: what was touched is taken before what was not. Neighbours are found by the table of runs (page_map.hpp).
// Cost: O(log N) of N free runs each. Threads: the owner's lock.
//
// INVARIANT: no two free runs touch. A free run is in the dirty tree if and only if it has dirty pages.
#pragma once

#include <cstdint>

#include "heap/layers/backend/page_map.hpp"
#include "heap/layers/backend/run_tree.hpp"

namespace heapyard {

template <RunMap Map>
class FreeRuns {
 public:
  constexpr explicit FreeRuns(Map& map) : map_(map) {}

  // The run that best serves so many pages; null if there is none. It stays in its tree.
  PageRun* fit(std::uint32_t pages) const {
    PageRun* run = dirty_.fit(pages);
    return run != nullptr ? run : clean_.fit(pages);
  }

  // The largest with dirty pages, or without; null if there is none.
  PageRun* largest_dirty() const { return dirty_.largest(); }
  PageRun* largest_clean() const { return clean_.largest(); }

  void erase(PageRun* run) { tree_of(run).erase(run); }
  void insert(PageRun* run) {
    map_.name_ends(run);
    tree_of(run).insert(run);
  }

  // A run becomes a free one, together with its neighbours. `top`: behind the last page that is there.
  void join(PageRun* run, std::uint32_t top) {
    run->kind = PageRun::kFree;
    PageRun* left = map_.run_of(run->page - 1);
    if (left->kind == PageRun::kFree && left->page + left->pages == run->page) {
      take_in(run, left);
      run->page = left->page;
      map_.give_record_back(left);
    }
    if (run->page + run->pages != top) {
      PageRun* right = map_.run_of(run->page + run->pages);
      if (right->kind == PageRun::kFree && right->page == run->page + run->pages) {
        take_in(run, right);
        map_.give_record_back(right);
      }
    }
    insert(run);
  }

  // For tests: whether the run is where it belongs.
  bool holds(const PageRun* run) const { return (run->dirty != 0 ? dirty_ : clean_).holds(run); }

 private:
  RunTree& tree_of(const PageRun* run) { return run->dirty != 0 ? dirty_ : clean_; }
  void take_in(PageRun* run, PageRun* other) {
    erase(other);
    if (other->dirty != 0) {
      if (run->dirty == 0 || other->low < run->low) run->low = other->low;
      if (run->dirty == 0 || other->high > run->high) run->high = other->high;
    }
    run->dirty += other->dirty;
    run->pages += other->pages;
  }

  Map& map_;
  TreeNode nil_{};  // of both trees
  RunTree dirty_{&nil_};
  RunTree clean_{&nil_};
};

}  // namespace heapyard
