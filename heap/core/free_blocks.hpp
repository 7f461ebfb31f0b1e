// SPDX-License-Identifier: Apache-2.0
// Free blocks of any size in two red-black trees, one by address, one by size, whose nodes lie in the blocks
// themselves.
//
// Idea: the tree component of BFM (paper, section 2.2). Blocks of one size form a list behind the one in the tree.
// Joining a freed block with its neighbours seldom moves a node, because the order by address stays. A split hands out
// the upper part, so the rest keeps its place in the tree by address. Cost: O(log N) of N free blocks. Threads: the
// owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/red_black_tree.hpp"
#include "heap/os/bound.hpp"

namespace heapyard::core {

class FreeBlocks {
 public:
  static constexpr std::size_t kLeast = 64 * sizeof(void*);  // paper: smaller blocks are the buckets'
  static constexpr std::size_t kAlignment = 16;

  // A free block, at its start. INVARIANT: its size is a multiple of 16 and at least kLeast, and no two free
  // blocks touch.
  struct Block {
    std::size_t size;  // of the whole block, prefix included
    std::size_t zero;
    TreeLinks<Block> by_address;
    // INVARIANT: of all blocks of one size exactly one stands in the tree by size, and has no `prev`; the
    // others follow it.
    TreeLinks<Block> by_size;
    Block* next;
    Block* prev;
  };
  static_assert(sizeof(Block) <= 16 * sizeof(void*));

  static Block* at(Block* block, std::size_t offset) {
    return reinterpret_cast<Block*>(reinterpret_cast<char*>(block) + offset);
  }

  constexpr FreeBlocks() = default;

  std::size_t bytes() const { return bytes_; }
  Block* nil() const { return by_size_.nil(); }
  Block* first() const { return by_address_.empty() ? nil() : by_address_.last(0); }
  Block* next(const Block* block) const { return by_address_.neighbour(block, 1); }
  Block* largest() const { return by_size_.empty() ? nil() : by_size_.last(1); }

  // The smallest free block of at least `need` bytes; nil if there is none.
  Block* best_fit(std::size_t need) const {
    Block* best = nil();
    os::Bound bound(by_address_.kHeight);
    for (Block* here = by_size_.root(); here != nil();) {
      bound.turn();
      const bool fits = here->size >= need;
      if (fits) best = here;
      here = by_size_.child(here, !fits);
    }
    return best;
  }

  // Makes of a free block one in use, of `need` bytes or a little more.
  Block* take(Block* best, std::size_t need) {
    // Those behind the one in the tree leave without a change of the tree.
    if (best->next != nullptr) best = best->next;
    const std::size_t rest = best->size - need;
    forget_size(best);
    if (rest < kLeast) {
      by_address_.erase(best);
      bytes_ -= best->size;
      return best;
    }
    best->size = rest;
    remember_size(best);
    bytes_ -= need;
    Block* taken = at(best, rest);
    taken->size = need;
    taken->zero = 0;
    return taken;
  }

  // Takes [from, to) out of a free block. What is left before and behind is a free block, or nothing.
  void cut(Block* block, std::uintptr_t from, std::uintptr_t to) {
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + block->size;
    remove(block);
    if (from != start) release(block, from - start);
    if (to != end) release(reinterpret_cast<Block*>(to), end - to);
  }

  // The free block that starts where `block` ends; nil if there is none. O(log N).
  Block* behind(Block* block) const {
    Block* const end = at(block, block->size);
    Block* here = by_address_.root();
    for (os::Bound bound(by_address_.kHeight); here != nil() && here != end; bound.turn())
      here = by_address_.child(here, here < end);
    return here;
  }

  // A free block leaves whole, for it joins the block in use before it.
  void remove(Block* block) {
    forget_size(block);
    by_address_.erase(block);
    bytes_ -= block->size;
  }

  // Paper, section 2.2.1: at most one node enters or leaves the tree by address, and none when one neighbour is free.
  void release(Block* block, std::size_t size) {
    Block *before = nil(), *behind = nil(), *parent = nil();
    int side = 0;
    os::Bound bound(by_address_.kHeight);
    for (Block* here = by_address_.root(); here != nil(); here = by_address_.child(here, side)) {
      bound.turn();
      parent = here;
      side = here < block;
      (side ? before : behind) = here;
    }
    bytes_ += size;
    const bool joins_behind = behind != nil() && at(block, size) == behind;
    if (joins_behind) {
      forget_size(behind);
      size += behind->size;
    }
    if (before != nil() && at(before, before->size) == block) {
      if (joins_behind) by_address_.erase(behind);
      forget_size(before);
      before->size += size;
      remember_size(before);
      return;
    }
    block->size = size;
    block->zero = 0;
    if (joins_behind)
      by_address_.replace(behind, block);
    else
      by_address_.insert(block, parent, side);
    remember_size(block);
  }

  // For tests: whether every INVARIANT holds, with the number of free blocks. O(N log N). Defined beside them
  // (tests/native/heap/consistent_tree.hpp).
  bool consistent(std::size_t* blocks) const;

 private:
  void remember_size(Block* block) {
    Block* parent = nil();
    int side = 0;
    os::Bound bound(by_address_.kHeight);
    for (Block* here = by_size_.root(); here != nil(); here = by_size_.child(here, side)) {
      bound.turn();
      if (here->size == block->size) {
        block->prev = here;
        block->next = here->next;
        if (block->next != nullptr) block->next->prev = block;
        here->next = block;
        return;
      }
      parent = here;
      side = here->size < block->size;
    }
    block->prev = block->next = nullptr;
    by_size_.insert(block, parent, side);
  }

  void forget_size(Block* block) {
    if (block->prev != nullptr) {
      block->prev->next = block->next;
      if (block->next != nullptr) block->next->prev = block->prev;
    } else if (block->next != nullptr) {
      block->next->prev = nullptr;
      by_size_.replace(block, block->next);
    } else {
      by_size_.erase(block);
    }
  }

  Block nil_{};  // of both trees: the sentinel is only written, so it can be shared
  RedBlackTree<Block, &Block::by_address> by_address_{&nil_};
  RedBlackTree<Block, &Block::by_size> by_size_{&nil_};
  std::size_t bytes_ = 0;  // INVARIANT: the sum of the sizes of all free blocks
};

}  // namespace heapyard::core
