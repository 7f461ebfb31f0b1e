// SPDX-License-Identifier: Apache-2.0
// A span of blocks of one size, owned by one allocation buffer, into which any thread may free.
//
// Idea: scalloc (OOPSLA 2015, sections 3.2 and 3.3). The owner takes and frees without any synchronisation, through its
// local list; the span adds blocks to that list a page at a time. Other threads push onto a lock-free stack in a line
// of its own. That stack is only ever emptied as a whole, so its tag counts its length. The epoch word decides who may
// move the span: HOT (its owner allocates from it), REUSE (its owner listed it), FULL (all blocks are free; the thread
// that freed the last one takes it). Its counter makes a stale value fail.
// Cost: O(1) each, apart from retries. Atomics: core/concurrency.hpp.
//
// INVARIANT: local + uncut + remote + live blocks = all blocks, whenever nobody is inside. A span is in at most one of:
// a hot slot, one list of reusable spans, the pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/concurrency.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/os/bound.hpp"

namespace heapyard {

template <core::ConcurrencyPolicy Policy = core::Concurrency>
struct alignas(64) ListSpanOf {
  using Concurrency = Policy;
  template <class T>
  using Atomic = typename Policy::template Atomic<T>;

  static constexpr std::uint32_t kHot = 1u << 31, kFull = 1u << 30, kReuse = 1u << 29, kDropped = 1u << 28;
  static constexpr std::uint32_t kCounter = kDropped - 1;
  static constexpr std::size_t kHeader = 128;
  static constexpr std::size_t kCut = 4096;  // bytes cut at a time: memory not yet needed stays untouched

  struct Block {
    Block* next;
  };

  // In a list of reusable spans, under its lock; `link` is the pool's.
  ListSpanOf* next;
  ListSpanOf* prev;
  Atomic<ListSpanOf*> link;
  Atomic<std::uint64_t> owner;  // core::Tagged of the buffer
  Atomic<std::uint32_t> epoch;
  Atomic<std::uint8_t> size_class;
  // The class under which a hot span is found; 0, nobody's, once blocks were handed out from their middle: then the
  // fast path of free does not know the span.
  Atomic<std::uint8_t> plain_class;
  // The owner's own.
  Block* local;
  Atomic<std::uint32_t> local_count;         // of `local` and `uncut`, kept while the span is not hot; others read it
  std::uint32_t uncut;                       // blocks
  std::uint32_t there;                       // bytes that are mapped: the pool's, as is `before`
  alignas(64) Atomic<std::uint64_t> remote;  // core::Tagged: top, and the length as its tag
  ListSpanOf* before;

  unsigned in_class() const { return size_class.load(std::memory_order_relaxed); }
  char* blocks() { return reinterpret_cast<char*>(this) + kHeader; }

  // For whoever has it alone. The epoch is left as it is: it outlives trips through the pool.
  void init(unsigned c, std::uint32_t count, std::uint64_t new_owner) {
    size_class.store(static_cast<std::uint8_t>(c), std::memory_order_relaxed);
    plain_class.store(static_cast<std::uint8_t>(c), std::memory_order_relaxed);
    local = nullptr;
    uncut = count;
    remote.store(0, std::memory_order_relaxed);
    owner.store(new_owner, std::memory_order_release);
  }

  // Before a pointer into the middle of a block is out, so whoever frees it sees this.
  void hand_out_middles() { plain_class.store(0, std::memory_order_relaxed); }
  bool has_middles() const { return plain_class.load(std::memory_order_relaxed) == 0; }

  // A block of the local list; null if there is none.
  void* take() {
    Block* block = local;
    if (block != nullptr) [[likely]]
      local = block->next;
    return block;
  }

  // Whether blocks that were never used are on the local list now, which must be empty. `all`: blocks of the span.
  // O(blocks of a page).
  bool cut(std::uint32_t bytes, std::uint32_t all) {
    if (uncut == 0) return false;
    std::uint32_t count = bytes < kCut ? static_cast<std::uint32_t>(kCut / bytes) : 1;
    if (count > uncut) count = uncut;
    char* at = blocks() + static_cast<std::size_t>(all - uncut) * bytes;
    Block* last = reinterpret_cast<Block*>(at + static_cast<std::size_t>(count - 1) * bytes);
    for (char* block = at; block != reinterpret_cast<char*>(last); block += bytes) {
      reinterpret_cast<Block*>(block)->next = reinterpret_cast<Block*>(block + bytes);
    }
    last->next = nullptr;
    uncut -= count;
    // A child forked by another thread right here misses these blocks, but has none of them twice.
    std::atomic_thread_fence(std::memory_order_release);
    local = reinterpret_cast<Block*>(at);
    return true;
  }

  // The owner frees into its hot span.
  void put_hot(void* block) {
    auto* item = static_cast<Block*>(block);
    item->next = local;
    local = item;
  }

  // The owner frees into another one. seq_cst: the last two blocks may be freed by two threads at once, and one of
  // them must see both. `alone`: the process has one thread.
  void put_local(void* block, bool alone) {
    put_hot(block);
    const std::uint32_t count = local_count.load(std::memory_order_relaxed) + 1;
    if (alone)
      local_count.store(count, std::memory_order_relaxed);
    else
      local_count.store(count, std::memory_order_seq_cst);
  }

  // Any other thread frees.
  void put_remote(void* block) {
    auto* item = static_cast<Block*>(block);
    std::uint64_t seen = remote.load(std::memory_order_relaxed);
    do {  // bound: each turn is a block that another thread freed, or the owner took
      item->next = core::Tagged(seen).pointer<Block>();
    } while (!remote.compare_exchange_weak(seen, core::Tagged(block, core::Tagged(seen).tag() + 1).word(),
                                           std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  std::uint32_t remote_count() const {
    return static_cast<std::uint32_t>(core::Tagged(remote.load(std::memory_order_seq_cst)).tag());
  }
  // Of a span that is not hot.
  std::uint32_t free_blocks() const { return remote_count() + local_count.load(std::memory_order_seq_cst); }

  // Of a hot span, by whoever asks: blocks on the owner's list, and those not cut yet. The owner may hand blocks out
  // meanwhile, and the program write into them: so a link is believed only if it is one of this span's blocks. It may
  // also be of the class before, whose blocks lay in memory that was taken away: so it must be of what is mapped. Exact
  // while the owner does nothing. O(all).
  [[gnu::no_sanitize_thread]] std::uint32_t free_for_owner(std::uint32_t bytes, std::uint32_t all) {
    std::uint32_t count = __atomic_load_n(&uncut, __ATOMIC_RELAXED);
    const auto first = reinterpret_cast<std::uintptr_t>(blocks());
    const std::uintptr_t mapped = __atomic_load_n(&there, __ATOMIC_RELAXED) - kHeader;
    const Block* block = __atomic_load_n(&local, __ATOMIC_RELAXED);
    while (block != nullptr && count < all) {
      const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(block) - first;
      if (offset >= std::uintptr_t{all} * bytes || offset >= mapped || offset % bytes != 0) break;
      ++count;
      block = __atomic_load_n(&block->next, __ATOMIC_RELAXED);
    }
    return count;
  }

  // The owner takes all that others freed. O(1) when its own list is empty, else O(remote blocks).
  void take_remote() {
    const core::Tagged all(remote.exchange(0, std::memory_order_acq_rel));
    auto* first = all.pointer<Block>();
    if (local == nullptr) {
      local = first;
      return;
    }
    os::Bound bound(all.tag());  // it counts them
    while (first != nullptr) {
      bound.turn();
      Block* rest = first->next;
      first->next = local;
      local = first;
      first = rest;
    }
  }

  std::uint32_t sample() const { return epoch.load(std::memory_order_seq_cst); }

  // Transitions of the epoch; each tells whether this caller won. `seen`: a sample.
  bool mark_full(std::uint32_t seen) { return move(seen, kFull); }
  // Under the lock of the list, as all that puts on or takes off it: REUSE says that the span is listed.
  bool mark_reuse(std::uint32_t seen) { return move(seen, kReuse); }
  bool unmark_reuse(std::uint32_t seen) { return move(seen, 0); }
  // A listed span leaves the list for good, REUSE stays (CleanupAsBuilt).
  bool mark_dropped(std::uint32_t seen) { return move(seen, kReuse | kDropped); }
  // For whoever has the span alone: from the pool, or from the list under its lock.
  void mark_hot() { epoch.store(((sample() + 1) & kCounter) | kHot, std::memory_order_seq_cst); }
  // From HOT, which is the owner's alone. The counter stays: a thread that saw it HOT and looks again must know it.
  // O(blocks of the local list): none but when a thread ends.
  void mark_floating() {
    std::uint32_t count = uncut;
    for (const Block* block = local; block != nullptr; block = block->next) ++count;
    local_count.store(count, std::memory_order_seq_cst);
    epoch.store(sample() & kCounter, std::memory_order_seq_cst);
  }

 private:
  bool move(std::uint32_t seen, std::uint32_t state) {
    return epoch.compare_exchange_strong(seen, ((seen + 1) & kCounter) | state, std::memory_order_seq_cst);
  }
};

using ListSpan = ListSpanOf<>;
static_assert(sizeof(ListSpan) == ListSpan::kHeader);

}  // namespace heapyard
