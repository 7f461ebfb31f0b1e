// SPDX-License-Identifier: Apache-2.0
// Ranges of any size by best fit, coalesced at once, in O(log N) for each single operation.
//
// Idea: BFM's heap component (paper, section 2.2) over the two trees of free blocks (core/free_blocks.hpp). The paper
// leaves open how the heap grows; here it grows by the steps of a policy (growth.hpp). The prefix of a block in use is
// its size, then a zero word, by which a pointer shows that it is not a bucket's block.
// Large blocks are whole pages, so they can move. Before one makes the heap grow, a few large free blocks go back to
// the system. Other users of its mappings may keep those from ever joining: a list that doubles leaves a copy of each
// size. Cost: allocate, free, resize O(log N) of N free blocks, and 1 + kReturned system calls when growing; trim O(N)
// calls. Threads: one lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/free_blocks.hpp"
#include "heap/layers/backend/growth.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Pages: static map(bytes), unmap, decommit and remap, as os::map; a test puts a source there that fails on
// request.
template <MovingPageSource Pages, GrowthPolicy Growth = SmallSteps<Pages>>
class BestFitTree {
 public:
  static constexpr bool kMapsEach = false;
  static constexpr std::size_t kPrefix = 2 * sizeof(std::size_t);
  static constexpr std::size_t kLeast = core::FreeBlocks::kLeast;
  static constexpr std::size_t kAlignment = core::FreeBlocks::kAlignment;
  static constexpr std::size_t kWorth = 32;
  // Requests and free blocks from this size on pay for a system call each. At most kReturned blocks go back at a time.
  static constexpr std::size_t kLarge = std::size_t{1} << 20;
  static constexpr unsigned kReturned = 8;
  // A range cut out of a mapping and moved makes up to two mappings more, and the system counts them (65,530 at most).
  static constexpr std::size_t kMostMoves = 8192;

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
    if (front != 0) free_.release(block, front);
    return user(keep(reinterpret_cast<Block*>(at), size, need));
  }

  void free(void* range) {
    Block* block = block_of(range);
    const os::Locked locked(lock_);
    free_.release(block, block->size);
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
      Block* next = free_.behind(block);
      if (next == nil() || size + next->size < need) return false;
      size += next->size;
      free_.remove(next);
    }
    keep(block, size, need);
    return true;
  }

  // Grows a range of whole pages by moving its pages elsewhere, which copies nothing; null if that cannot be done. Then
  // nothing has changed. O(1), and one system call; that of shrink() where memory is out.
  void* move(void* range, std::size_t bytes) {
    const std::size_t need = with_prefix(bytes);
    Block* block = block_of(range);
    const std::size_t size = block->size;
    if (need < kLarge || need <= size || size < kLarge) return nullptr;
    if ((reinterpret_cast<std::uintptr_t>(block) | size) & (os::page_bytes() - 1)) return nullptr;
    {
      const os::Locked locked(lock_);
      if (moves_ == kMostMoves) return nullptr;
      ++moves_;
    }
    auto* moved = static_cast<Block*>(Pages::remap(block, size, need));
    if (moved == nullptr) moved = remap_after_shrinking(block, size, need);
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
    for (Block* block = free_.first(); block != nil(); block = free_.next(block)) {
      Pages::decommit(block + 1, block->size - sizeof(Block));
    }
  }

  // Gives the address space of the whole pages inside every free block back too; whether there was any. O(N log N), but
  // O(1) until a part in kWorth of what is mapped was freed since: a full heap does not look for each block again.
  bool shrink() {
    const os::Locked locked(lock_);
    const std::size_t free = free_.bytes();
    if (free < shrunk_) shrunk_ = free;
    if (free == shrunk_ || free - shrunk_ < mapped_ / kWorth) return false;
    const std::size_t before = mapped_;
    for (Block *block = free_.first(), *next; block != nil(); block = next) {
      next = free_.next(block);
      give_back(block);
    }
    shrunk_ = free_.bytes();
    return mapped_ != before;
  }

  HeapUsage usage() {
    const os::Locked locked(lock_);
    return {mapped_, free_.bytes()};
  }

  // For tests: whether every INVARIANT holds, with the number of free blocks. O(N log N). Defined beside them
  // (tests/native/heap/consistent_tree.hpp).
  bool consistent(std::size_t* blocks) const;

 private:
  using Block = core::FreeBlocks::Block;

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
  Block* nil() const { return free_.nil(); }

  // A block in use of at least `need` bytes: the smallest that fits. Null when the system gives no more.
  Block* take(std::size_t need) {
    Block* best = free_.best_fit(need);
    if (best == nil()) {
      if (!grow(need)) return nullptr;
      best = free_.best_fit(need);
    }
    return free_.take(best, need);
  }

  // Makes of a block in use one of `need` bytes, and of what is behind a free block, if it is large enough for one.
  Block* keep(Block* block, std::size_t size, std::size_t need) {
    const std::size_t rest = size - need;
    block->size = rest < kLeast ? size : need;
    block->zero = 0;
    if (rest >= kLeast) free_.release(core::FreeBlocks::at(block, need), rest);
    return block;
  }

  // The same for `need` bytes of whole pages, which can move.
  Block* take_pages(std::size_t need) {
    Block* best = free_.best_fit(need);
    std::uintptr_t from = best == nil() ? 0 : place_pages(best, need);
    if (from == 0) {
      const std::size_t enough = need + os::page_bytes() + 2 * kLeast;  // wherever it starts
      best = free_.best_fit(enough);
      if (best == nil()) {
        if (!grow(enough)) return nullptr;
        best = free_.best_fit(enough);
      }
      from = place_pages(best, need);
    }
    free_.cut(best, from, from + need);
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

  // Where a limit on address space is met: free blocks have some.
  [[gnu::noinline, gnu::cold]] Block* remap_after_shrinking(Block* block, std::size_t size, std::size_t need) {
    return shrink() ? static_cast<Block*>(Pages::remap(block, size, need)) : nullptr;
  }

  // Gives the address space of the whole pages inside a free block back; whether it has any, and the system takes them.
  bool give_back(Block* block) {
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + block->size;
    std::uintptr_t from = os::round_up(start, os::page_bytes()), to = end & ~(os::page_bytes() - 1);
    if (from != start && from - start < kLeast) from += os::page_bytes();
    if (to != end && end - to < kLeast) to -= os::page_bytes();
    if (from >= to) return false;
    free_.cut(block, from, to);
    const bool unmapped = Pages::unmap(reinterpret_cast<void*>(from), to - from);
    if (unmapped)
      mapped_ -= to - from;
    else
      free_.release(reinterpret_cast<Block*>(from), to - from);
    return unmapped;
  }

  // The largest free blocks, while more than half as much is free as is in use. O(kReturned log N).
  void give_back_large() {
    for (unsigned returned = 0; returned < kReturned && free_.bytes() > (mapped_ - free_.bytes()) / 2; ++returned) {
      Block* largest = free_.largest();
      if (largest == nil() || largest->size < kLarge || !give_back(largest)) return;
    }
  }

  [[gnu::noinline, gnu::cold]] bool grow(std::size_t need) {
    if (need >= kLarge) give_back_large();
    std::size_t bytes = 0;
    void* memory = Growth::map(need, mapped_, bytes);
    if (memory == nullptr) return false;
    mapped_ += bytes;
    free_.release(static_cast<Block*>(memory), bytes);
    return true;
  }

  core::FreeBlocks free_;
  std::size_t mapped_ = 0;
  std::size_t moves_ = 0;
  std::size_t shrunk_ = 0;  // the least free_ since address space was last given back
  os::Lock lock_;
};

}  // namespace heapyard
