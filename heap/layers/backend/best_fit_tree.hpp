// SPDX-License-Identifier: Apache-2.0
// Ranges of any size by best fit, coalesced at once, in O(log N) for each single operation.
//
// Idea: the tree component of BFM (paper, section 2.2). Each free block is in two red-black trees, one by address, one
// by size, whose nodes lie in the block itself. Blocks of one size form a list behind the one in the tree. Joining a
// freed block with its neighbours seldom moves a node, because the order by address stays. The paper leaves two points
// open. Here the heap grows by the steps of a policy (growth.hpp), and a split hands out the upper part, so the rest
// keeps its place in the tree by address. The prefix of a block in use is its size, then a zero word, by which a
// pointer shows that it is not a bucket's block.
// Before a large request makes the heap grow, a few large free blocks go back to the system. Other users of its
// mappings may keep them from ever joining: a list that doubles leaves a free copy of each size behind. Cost: allocate,
// free, resize O(log N) of N free blocks, and 1 + kReturned system calls when growing; trim O(N) calls. Threads: one
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/red_black_tree.hpp"
#include "heap/layers/backend/growth.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Pages: static map(bytes), unmap and decommit(memory, bytes), as os::map; a test puts a source there that fails on
// request.
template <class Pages, class Growth = SmallSteps<Pages>>
class BestFitTree {
 public:
  static constexpr std::size_t kPrefix = 2 * sizeof(std::size_t);
  static constexpr std::size_t kLeast = 64 * sizeof(void*);  // paper: smaller blocks are the buckets'
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kWorth = 32;
  // Requests and free blocks from this size on pay for a system call each. At most kReturned blocks go back at a time.
  static constexpr std::size_t kLarge = std::size_t{1} << 20;
  static constexpr unsigned kReturned = 8;

  constexpr BestFitTree() = default;

  // At least `bytes`, at a multiple of 16; null when the system gives no more.
  void* allocate(std::size_t bytes) {
    const std::size_t need = with_prefix(bytes);
    const os::Locked locked(lock_);
    Block* block = need < kLarge ? take(need) : take_pages(need);
    return block == nullptr ? nullptr : user(block);
  }

  // `alignment`: a power of two above 16; the sum of both arguments must not overflow.
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    const std::size_t need = with_prefix(bytes);
    const os::Locked locked(lock_);
    Block* block = take(need + alignment + kLeast);
    if (block == nullptr) return nullptr;
    const auto start = reinterpret_cast<std::uintptr_t>(block);
    std::uintptr_t at = os::round_up(start + kPrefix, alignment) - kPrefix;
    // What is cut off in front becomes a free block, which has a least size.
    if (at != start && at - start < kLeast) at = os::round_up(start + kLeast + kPrefix, alignment) - kPrefix;
    const std::size_t front = at - start;
    std::size_t size = block->size - front;
    if (front != 0) release(block, front);
    return user(keep(reinterpret_cast<Block*>(at), size, need));
  }

  void free(void* range) {
    Block* block = block_of(range);
    const os::Locked locked(lock_);
    release(block, block->size);
  }

  // Whether the range now holds `bytes` where it is; grows into the free block behind it, gives back what is not
  // needed.
  bool resize(void* range, std::size_t bytes) {
    const std::size_t need = with_prefix(bytes);
    Block* block = block_of(range);
    if (need <= block->size && block->size - need < kLeast) return true;
    const os::Locked locked(lock_);
    std::size_t size = block->size;
    if (need > size) {
      Block* next = behind(block);
      if (next == nil() || size + next->size < need) return false;
      forget_size(next);
      by_address_.erase(next);
      free_ -= next->size;
      size += next->size;
    }
    keep(block, size, need);
    return true;
  }

  // Grows a range of whole pages by moving its pages elsewhere, which copies nothing; null if that cannot be done. Then
  // nothing has changed. O(1), and one system call.
  void* move(void* range, std::size_t bytes) {
    const std::size_t need = with_prefix(bytes);
    Block* block = block_of(range);
    const std::size_t size = block->size;
    if (need < kLarge || need <= size || size < kLarge) return nullptr;
    if ((reinterpret_cast<std::uintptr_t>(block) | size) & (os::page_bytes() - 1)) return nullptr;
    auto* moved = static_cast<Block*>(Pages::remap(block, size, need));
    if (moved == nullptr) return nullptr;
    moved->size = need;
    const os::Locked locked(lock_);
    mapped_ += need - size;
    return user(moved);
  }

  std::size_t usable(const void* range) const { return block_of(range)->size - kPrefix; }

  // Bytes that the range takes in all.
  std::size_t occupied(const void* range) const { return block_of(range)->size; }

  // Gives the whole pages inside every free block back to the system.
  void trim() {
    const os::Locked locked(lock_);
    if (by_address_.empty()) return;
    for (Block* block = by_address_.last(0); block != nil(); block = by_address_.neighbour(block, 1)) {
      Pages::decommit(block + 1, block->size - sizeof(Block));
    }
  }

  // Gives the address space of the whole pages inside every free block back too; whether there was any. O(N log N), but
  // O(1) until a part in kWorth of what is mapped was freed since: a full heap does not look for each block again.
  bool shrink() {
    const os::Locked locked(lock_);
    if (free_ < shrunk_) shrunk_ = free_;
    if (free_ == shrunk_ || free_ - shrunk_ < mapped_ / kWorth) return false;
    const std::size_t before = mapped_;
    for (Block *block = by_address_.empty() ? nil() : by_address_.last(0), *next; block != nil(); block = next) {
      next = by_address_.neighbour(block, 1);
      give_back(block);
    }
    shrunk_ = free_;
    return mapped_ != before;
  }

  HeapUsage usage() {
    const os::Locked locked(lock_);
    return {mapped_, free_};
  }

  // For tests: whether every INVARIANT holds, with the number of free blocks. O(N log N). Defined beside them
  // (tests/native/heap/consistent_tree.hpp).
  bool consistent(std::size_t* blocks) const;

 private:
  // A free block, at its start. INVARIANT: its size is a multiple of 16 and at least kLeast, and no two free
  // blocks touch.
  struct Block {
    std::size_t size;  // of the whole block, prefix included
    std::size_t zero;
    core::TreeLinks<Block> by_address;
    // INVARIANT: of all blocks of one size exactly one stands in the tree by size, and has no `prev`; the
    // others follow it.
    core::TreeLinks<Block> by_size;
    Block* next;
    Block* prev;
  };
  static_assert(sizeof(Block) <= 16 * sizeof(void*));

  static std::size_t with_prefix(std::size_t bytes) {
    const std::size_t need = os::round_up(bytes + kPrefix, kAlignment);
    if (need >= kLarge) return os::round_up(need, os::page_bytes());
    return need < kLeast ? kLeast : need;
  }
  static void* user(Block* block) { return reinterpret_cast<char*>(block) + kPrefix; }
  static Block* block_of(void* range) { return reinterpret_cast<Block*>(static_cast<char*>(range) - kPrefix); }
  static const Block* block_of(const void* range) {
    return reinterpret_cast<const Block*>(static_cast<const char*>(range) - kPrefix);
  }
  static Block* at(Block* block, std::size_t offset) {
    return reinterpret_cast<Block*>(reinterpret_cast<char*>(block) + offset);
  }
  Block* nil() const { return by_size_.nil(); }

  // A block in use of at least `need` bytes: the smallest that fits. Null when the system gives no more.
  Block* take(std::size_t need) {
    Block* best = best_fit(need);
    if (best == nil()) {
      if (!grow(need)) return nullptr;
      best = best_fit(need);
    }
    // Those behind the one in the tree leave without a change of the tree.
    if (best->next != nullptr) best = best->next;
    const std::size_t rest = best->size - need;
    forget_size(best);
    if (rest < kLeast) {
      by_address_.erase(best);
      free_ -= best->size;
      return best;
    }
    best->size = rest;
    remember_size(best);
    free_ -= need;
    Block* taken = at(best, rest);
    taken->size = need;
    taken->zero = 0;
    return taken;
  }

  // Makes of a block in use one of `need` bytes, and of what is behind a free block, if it is large enough for one.
  Block* keep(Block* block, std::size_t size, std::size_t need) {
    const std::size_t rest = size - need;
    block->size = rest < kLeast ? size : need;
    block->zero = 0;
    if (rest >= kLeast) release(at(block, need), rest);
    return block;
  }

  // Paper, section 2.2.1: at most one node enters or leaves the tree by address, and none when one neighbour is free.
  void release(Block* block, std::size_t size) {
    Block *before = nil(), *behind = nil(), *parent = nil();
    int side = 0;
    for (Block* here = by_address_.root(); here != nil(); here = by_address_.child(here, side)) {  // O(log N)
      parent = here;
      side = here < block;
      (side ? before : behind) = here;
    }
    free_ += size;
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

  // The free block that starts where `block` ends; nil if there is none. O(log N).
  Block* behind(Block* block) const {
    Block* const end = at(block, block->size);
    Block* here = by_address_.root();
    while (here != nil() && here != end) here = by_address_.child(here, here < end);
    return here;
  }

  Block* best_fit(std::size_t need) const {
    Block* best = nil();
    for (Block* here = by_size_.root(); here != nil();) {  // O(log N)
      const bool fits = here->size >= need;
      if (fits) best = here;
      here = by_size_.child(here, !fits);
    }
    return best;
  }

  void remember_size(Block* block) {
    Block* parent = nil();
    int side = 0;
    for (Block* here = by_size_.root(); here != nil(); here = by_size_.child(here, side)) {  // O(log N)
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

  // The same for `need` bytes of whole pages, which can move.
  Block* take_pages(std::size_t need) {
    Block* best = best_fit(need);
    std::uintptr_t from = best == nil() ? 0 : place_pages(best, need);
    if (from == 0) {
      const std::size_t enough = need + os::page_bytes() + 2 * kLeast;  // wherever it starts
      best = best_fit(enough);
      if (best == nil()) {
        if (!grow(enough)) return nullptr;
        best = best_fit(enough);
      }
      from = place_pages(best, need);
    }
    cut(best, from, from + need);
    auto* taken = reinterpret_cast<Block*>(from);
    taken->size = need;
    taken->zero = 0;
    return taken;
  }

  // Where in a free block `need` bytes of whole pages start; 0 if that leaves a rest that is no block.
  static std::uintptr_t place_pages(Block* block, std::size_t need) {
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + block->size;
    std::uintptr_t from = (end - need) & ~(os::page_bytes() - 1);
    const std::size_t behind = end - need - from;
    if (behind != 0 && behind < kLeast) from -= os::page_bytes();
    return from == start || (from > start && from - start >= kLeast) ? from : 0;
  }

  // Takes [from, to) out of a free block. What is left before and behind is a free block, or nothing.
  void cut(Block* block, std::uintptr_t from, std::uintptr_t to) {
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + block->size;
    forget_size(block);
    by_address_.erase(block);
    free_ -= end - start;
    if (from != start) release(block, from - start);
    if (to != end) release(reinterpret_cast<Block*>(to), end - to);
  }

  // Gives the address space of the whole pages inside a free block back; whether it has any, and the system takes them.
  bool give_back(Block* block) {
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + block->size;
    std::uintptr_t from = os::round_up(start, os::page_bytes()), to = end & ~(os::page_bytes() - 1);
    if (from != start && from - start < kLeast) from += os::page_bytes();
    if (to != end && end - to < kLeast) to -= os::page_bytes();
    if (from >= to) return false;
    cut(block, from, to);
    const bool unmapped = Pages::unmap(reinterpret_cast<void*>(from), to - from);
    if (unmapped)
      mapped_ -= to - from;
    else
      release(reinterpret_cast<Block*>(from), to - from);
    return unmapped;
  }

  // The largest free blocks, while more than half as much is free as is in use. O(kReturned log N).
  void give_back_large() {
    for (unsigned returned = 0; returned < kReturned && free_ > (mapped_ - free_) / 2; ++returned) {
      Block* largest = by_size_.empty() ? nil() : by_size_.last(1);
      if (largest == nil() || largest->size < kLarge || !give_back(largest)) return;
    }
  }

  [[gnu::noinline, gnu::cold]] bool grow(std::size_t need) {
    if (need >= kLarge) give_back_large();
    std::size_t bytes = 0;
    void* memory = Growth::map(need, mapped_, bytes);
    if (memory == nullptr) return false;
    mapped_ += bytes;
    release(static_cast<Block*>(memory), bytes);
    return true;
  }

  Block nil_{};  // of both trees: the sentinel is only written, so it can be shared
  core::RedBlackTree<Block, &Block::by_address> by_address_{&nil_};
  core::RedBlackTree<Block, &Block::by_size> by_size_{&nil_};
  std::size_t mapped_ = 0;
  std::size_t free_ = 0;    // INVARIANT: the sum of the sizes of all free blocks
  std::size_t shrunk_ = 0;  // the least free_ since address space was last given back
  os::Lock lock_;
};

}  // namespace heapyard
