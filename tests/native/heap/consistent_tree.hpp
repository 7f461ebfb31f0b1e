// SPDX-License-Identifier: Apache-2.0
// Whether every INVARIANT of a best fit tree holds.
#pragma once

#include <cstddef>

#include "heap/layers/backend/best_fit_tree.hpp"

namespace heapyard {

namespace core {

inline bool FreeBlocks::consistent(std::size_t* blocks) const {
  std::size_t count = 0, bytes = 0, listed = 0;
  if (!by_address_.empty()) {
    const Block* before = nullptr;
    for (Block* block = by_address_.last(0); block != nil(); block = by_address_.neighbour(block, 1)) {
      if (block->size < kLeast || block->size % kAlignment != 0) return false;
      if (before != nullptr && reinterpret_cast<const char*>(before) + before->size >= reinterpret_cast<char*>(block))
        return false;
      before = block;
      ++count;
      bytes += block->size;
    }
    std::size_t last = 0;
    for (Block* head = by_size_.last(0); head != nil(); head = by_size_.neighbour(head, 1)) {
      if (head->size <= last || head->prev != nullptr) return false;
      last = head->size;
      for (Block* block = head; block != nullptr; block = block->next) {
        if (block->size != last || (block->next != nullptr && block->next->prev != block)) return false;
        ++listed;
      }
    }
  }
  *blocks = count;
  return listed == count && bytes == bytes_;
}

}  // namespace core

template <MovingPageSource Pages, GrowthPolicy Growth>
bool BestFitTree<Pages, Growth>::consistent(std::size_t* blocks) const {
  return free_.consistent(blocks) && free_.bytes() <= mapped_;
}

}  // namespace heapyard
