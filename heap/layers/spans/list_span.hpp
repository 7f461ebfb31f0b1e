// A span of blocks of one size, owned by one front end, into which any thread may free.
//
// Idea: scalloc (OOPSLA 2015, sections 3.2 and 3.3). The owner takes and frees without any synchronisation, through
// its local list or by cutting the span further; others push onto a lock-free stack in a line of its own. That
// stack is only ever emptied as a whole, so its tag counts its length. The epoch word decides who may move the
// span: HOT (its owner allocates from it), REUSE (its owner listed it), FULL (all blocks free, taken by who freed
// the last); its counter makes a stale sample fail. Cost: O(1) each, apart from retries.
//
// INVARIANT: local + remote + live blocks = all blocks, whenever nobody is inside. A span is in at most one of: a hot
// slot, one list of reusable spans, the pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/core/tagged_stack.hpp"

namespace heapyard {

struct SpanBlock {
  SpanBlock* next;
};

struct alignas(64) ListSpan {
  static constexpr std::uint32_t kHot = 1u << 31, kFull = 1u << 30, kReuse = 1u << 29, kCounter = kReuse - 1;
  static constexpr std::size_t kHeader = 128;

  // In a list of reusable spans, under its lock; `link` is the pool's.
  ListSpan* next;
  ListSpan* prev;
  std::atomic<ListSpan*> link;
  std::atomic<std::uint64_t> owner;  // core::Tagged of the front end
  std::atomic<std::uint32_t> epoch;
  std::atomic<std::uint8_t> size_class;
  std::atomic<bool> has_aligned;  // blocks were handed out from their middle
  // The owner's own.
  SpanBlock* local;
  std::atomic<std::uint32_t> local_count;         // of `local` and of what was not cut yet; others read it
  std::uint32_t uncut;                            // blocks
  alignas(64) std::atomic<std::uint64_t> remote;  // core::Tagged: top, and the length as its tag

  unsigned in_class() const { return size_class.load(std::memory_order_relaxed); }
  char* blocks() { return reinterpret_cast<char*>(this) + kHeader; }

  // For whoever has it alone. The epoch is left as it is: it outlives trips through the pool.
  void init(unsigned c, std::uint32_t count, std::uint64_t new_owner) {
    size_class.store(static_cast<std::uint8_t>(c), std::memory_order_relaxed);
    has_aligned.store(false, std::memory_order_relaxed);
    local = nullptr;
    uncut = count;
    local_count.store(count, std::memory_order_relaxed);
    remote.store(0, std::memory_order_relaxed);
    owner.store(new_owner, std::memory_order_release);
  }

  // A block of the local list, or the next one never used; null if there is none. `all`: blocks of the span.
  void* take(std::uint32_t bytes, std::uint32_t all) {
    void* block = local;
    if (local != nullptr)
      local = local->next;
    else if (uncut != 0)
      block = blocks() + static_cast<std::size_t>(all - uncut--) * bytes;
    else
      return nullptr;
    local_count.store(local_count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    return block;
  }

  // The owner frees. `order`: seq_cst unless the span is hot, for the last two blocks may be freed by two threads
  // at once, and one of them must see both.
  void put_local(void* block, std::memory_order order) {
    auto* item = static_cast<SpanBlock*>(block);
    item->next = local;
    local = item;
    local_count.store(local_count.load(std::memory_order_relaxed) + 1, order);
  }

  // Any other thread frees.
  void put_remote(void* block) {
    auto* item = static_cast<SpanBlock*>(block);
    std::uint64_t seen = remote.load(std::memory_order_relaxed);
    do {
      item->next = core::Tagged(seen).pointer<SpanBlock>();
    } while (!remote.compare_exchange_weak(seen, core::Tagged(block, core::Tagged(seen).tag() + 1).word(),
                                           std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  std::uint32_t remote_count() const {
    return static_cast<std::uint32_t>(core::Tagged(remote.load(std::memory_order_seq_cst)).tag());
  }
  std::uint32_t free_blocks() const { return remote_count() + local_count.load(std::memory_order_seq_cst); }

  // The owner takes all that others freed. O(1) when its own list is empty, else O(remote blocks).
  void take_remote() {
    const core::Tagged all(remote.exchange(0, std::memory_order_acq_rel));
    auto* first = all.pointer<SpanBlock>();
    const auto taken = static_cast<std::uint32_t>(all.tag());
    local_count.store(local_count.load(std::memory_order_relaxed) + taken, std::memory_order_relaxed);
    if (local == nullptr) {
      local = first;
      return;
    }
    while (first != nullptr) {
      SpanBlock* rest = first->next;
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
  // For whoever has the span alone: from the pool, or from the list under its lock.
  void mark_hot() { epoch.store(((sample() + 1) & kCounter) | kHot, std::memory_order_seq_cst); }
  // From HOT, which is the owner's alone. The counter stays: a thread that saw it HOT and looks again must know it.
  void mark_floating() { epoch.store(sample() & kCounter, std::memory_order_seq_cst); }

 private:
  bool move(std::uint32_t seen, std::uint32_t state) {
    return epoch.compare_exchange_strong(seen, ((seen + 1) & kCounter) | state, std::memory_order_seq_cst);
  }
};
static_assert(sizeof(ListSpan) == ListSpan::kHeader);

}  // namespace heapyard
