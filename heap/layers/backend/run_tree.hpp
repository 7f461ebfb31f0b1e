// SPDX-License-Identifier: Apache-2.0
// Runs of pages in order: by their pages, and then by address.
//
// Idea: best fit, the lowest of those that fit equally well. Cost: O(log N) of N runs each. Threads: the owner's lock.
#pragma once

#include <cstdint>

#include "heap/core/red_black_tree.hpp"
#include "heap/layers/backend/page_map.hpp"

namespace heapyard {

class RunTree {
 public:
  // `nil`: a node of zeros, which trees may share.
  constexpr explicit RunTree(TreeNode* nil) : tree_(nil) {}

  // The smallest run of at least so many pages; null if there is none.
  PageRun* fit(std::uint32_t pages) const {
    TreeNode* best = nullptr;
    for (TreeNode* here = tree_.root(); here != tree_.nil();) {  // O(log N)
      const bool fits = static_cast<PageRun*>(here)->pages >= pages;
      if (fits) best = here;
      here = tree_.child(here, !fits);
    }
    return static_cast<PageRun*>(best);
  }
  PageRun* largest() const { return tree_.empty() ? nullptr : static_cast<PageRun*>(tree_.last(1)); }

  void erase(PageRun* run) { tree_.erase(run); }
  void insert(PageRun* run) {
    TreeNode* parent = tree_.nil();
    int side = 0;
    for (TreeNode* here = tree_.root(); here != tree_.nil(); here = tree_.child(here, side)) {  // O(log N)
      parent = here;
      side = less(static_cast<PageRun*>(here), run);
    }
    tree_.insert(run, parent, side);
  }

  // For tests: whether the run is where it belongs.
  bool holds(const PageRun* run) const {
    const TreeNode* here = tree_.root();
    while (here != tree_.nil() && here != run) here = tree_.child(here, less(static_cast<const PageRun*>(here), run));
    return here == run;
  }

 private:
  static bool less(const PageRun* a, const PageRun* b) {
    return a->pages != b->pages ? a->pages < b->pages : a->page < b->page;
  }

  core::RedBlackTree<TreeNode, &TreeNode::links> tree_;
};

}  // namespace heapyard
