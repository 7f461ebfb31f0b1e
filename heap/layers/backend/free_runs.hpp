// SPDX-License-Identifier: Apache-2.0
// The free runs of pages: two trees by pages and then by address, one of runs with dirty pages, one of all zeros.
//
// Idea: what was touched is taken before what was not, and of each the smallest run that serves, the lowest of these.
// Neighbours are found by the table of runs (page_map.hpp). Cost: O(log N) of N free runs each. Threads: the owner's
// lock.
//
// INVARIANT: no two free runs touch. A free run is in the dirty tree if and only if it has dirty pages.
#pragma once

#include <cstdint>

#include "heap/core/red_black_tree.hpp"
#include "heap/layers/backend/page_map.hpp"

namespace heapyard {

template <RunMap Map>
class FreeRuns {
 public:
  constexpr explicit FreeRuns(Map& map) : map_(map) {}

  // The run that best serves so many pages; null if there is none. It stays in its tree.
  PageRun* fit(std::uint32_t pages) const {
    PageRun* run = fit(dirty_, pages);
    return run != nullptr ? run : fit(clean_, pages);
  }

  // The largest with dirty pages; null if there is none.
  PageRun* largest_dirty() const { return dirty_.empty() ? nullptr : static_cast<PageRun*>(dirty_.last(1)); }

  void erase(PageRun* run) { tree_of(run).erase(run); }
  void insert(PageRun* run) {
    map_.name_ends(run);
    Tree& tree = tree_of(run);
    TreeNode* parent = tree.nil();
    int side = 0;
    for (TreeNode* here = tree.root(); here != tree.nil(); here = tree.child(here, side)) {  // O(log N)
      parent = here;
      side = less(static_cast<PageRun*>(here), run);
    }
    tree.insert(run, parent, side);
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
  bool holds(const PageRun* run) const {
    const Tree& tree = run->dirty != 0 ? dirty_ : clean_;
    const TreeNode* here = tree.root();
    while (here != tree.nil() && here != run) here = tree.child(here, less(static_cast<const PageRun*>(here), run));
    return here == run;
  }

 private:
  using Tree = core::RedBlackTree<TreeNode, &TreeNode::links>;

  Tree& tree_of(const PageRun* run) { return run->dirty != 0 ? dirty_ : clean_; }
  static bool less(const PageRun* a, const PageRun* b) {
    return a->pages != b->pages ? a->pages < b->pages : a->page < b->page;
  }
  static PageRun* fit(const Tree& tree, std::uint32_t pages) {
    TreeNode* best = nullptr;
    for (TreeNode* here = tree.root(); here != tree.nil();) {  // O(log N)
      const bool fits = static_cast<PageRun*>(here)->pages >= pages;
      if (fits) best = here;
      here = tree.child(here, !fits);
    }
    return static_cast<PageRun*>(best);
  }
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
  Tree dirty_{&nil_};
  Tree clean_{&nil_};
};

}  // namespace heapyard
