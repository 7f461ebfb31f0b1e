// SPDX-License-Identifier: Apache-2.0
// The spans of one class that an allocation buffer would use again: a deque under a lock, or a lock-free stack.
//
// Idea: scalloc has both (OOPSLA 2015, section 2.5). A deque gives the span that was listed first. It releases a span
// that becomes empty, in the free that empties it. A stack takes no lock and gives the span that was listed last. It
// keeps empty spans until they are taken, or memory is short.
// Cost: O(1) each; close and drain O(spans listed). Threads: any may add, remove and drain; the rest is the owner's.
// Atomics and locks: the span's Concurrency.
//
// INVARIANT: REUSE in a span's epoch says that its owner listed it here, unless DROPPED says that the span has left the
// list for good.
#pragma once

#include <atomic>
#include <cstdint>

#include "heap/core/ring.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/layers/span_concepts.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

template <ReusableSpan SpanT>
class ReusableDeque {
 public:
  using Span = SpanT;
  using Concurrency = typename Span::Concurrency;
  static constexpr bool kRemoves = true;

  void open(std::uint64_t owner) {
    const os::Locked locked(lock_);
    owner_ = owner;
  }

  // Whether `owner` has closed, or is at it.
  bool closing(std::uint64_t owner) const { return owner_.load(std::memory_order_relaxed) != owner; }

  // Lists a span; false if it moved since the sample `seen`. An owner that closes just now looks itself.
  template <class Settle>
  bool add(Span* span, std::uint32_t seen, std::uint64_t owner, Settle) {
    const os::Locked locked(lock_);
    if (owner_ != owner) return true;
    if (!span->mark_reuse(seen)) return false;
    spans_.push_front(span);
    return true;
  }

  // Whether an empty span was taken off for good.
  bool remove(Span* span, std::uint32_t seen, std::uint64_t owner) {
    const os::Locked locked(lock_);
    if (owner_ != owner || !span->mark_full(seen)) return false;
    spans_.remove(span);
    return true;
  }

  // The span listed first, hot from here on; or null.
  template <class Settle>
  Span* take(std::uint64_t, Settle) {
    const os::Locked locked(lock_);
    if (spans_.empty()) return nullptr;
    Span* span = spans_.front()->prev;
    spans_.remove(span);
    span->mark_hot();
    return span;
  }

  // Looks at every span: removes those that are empty and gives them to put(); drops the others but for the one listed
  // first, if `drops`.
  template <class Put, class Settle>
  void drain(std::uint32_t all, bool drops, Put put, Settle) {
    const os::Locked locked(lock_);
    Span* const last = spans_.empty() ? nullptr : spans_.front()->prev;
    for (Span *span = spans_.front(), *next; span != nullptr; span = next) {
      next = span == last ? nullptr : span->next;
      const std::uint32_t seen = span->sample();
      if (span->free_blocks() == all && span->mark_full(seen)) {
        spans_.remove(span);
        put(span);
      } else if (drops && span != last && span->mark_dropped(seen)) {
        spans_.remove(span);
      }
    }
  }

  // Lists nothing from here on; what was listed floats and goes to settle().
  template <class Settle>
  void close(Settle settle) {
    lock_.lock();
    owner_ = 0;
    while (Span* span = spans_.front()) {
      spans_.remove(span);
      span->unmark_reuse(span->sample());
      lock_.unlock();
      settle(span);
      lock_.lock();
    }
    lock_.unlock();
  }

 private:
  typename Concurrency::Lock lock_;
  typename Concurrency::template Atomic<std::uint64_t> owner_{0};  // written under the lock
  core::Ring<Span> spans_;
};

template <ReusableSpan SpanT>
class ReusableStack {
 public:
  using Span = SpanT;
  using Concurrency = typename Span::Concurrency;
  static constexpr bool kRemoves = false;

  void open(std::uint64_t owner) { owner_.store(owner, std::memory_order_seq_cst); }
  bool closing(std::uint64_t owner) const { return owner_.load(std::memory_order_seq_cst) != owner; }

  // Either we see after the push that the owner closes, or it sees our span: so both have a fence between.
  template <class Settle>
  bool add(Span* span, std::uint32_t seen, std::uint64_t owner, Settle settle) {
    if (closing(owner)) return true;
    if (!span->mark_reuse(seen)) return false;
    spans_.push(span);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (closing(owner)) empty(settle);
    return true;
  }

  bool remove(Span*, std::uint32_t, std::uint64_t) { return false; }

  // A span of another owner was listed while the buffer changed hands: it may be adopted, so it is not ours to use.
  template <class Settle>
  Span* take(std::uint64_t owner, Settle settle) {
    while (Span* span = spans_.pop()) {
      if (span->owner.load(std::memory_order_acquire) == owner) {
        span->mark_hot();
        return span;
      }
      span->unmark_reuse(span->sample());
      settle(span);
    }
    return nullptr;
  }

  // As the deque's, which drops nothing. What is not empty comes back in its order. If the owner has closed meanwhile,
  // it did not see what was taken here.
  template <class Put, class Settle>
  void drain(std::uint32_t all, bool, Put put, Settle settle) {
    const std::uint64_t owner = owner_.load(std::memory_order_seq_cst);
    core::TaggedStack<Span, Concurrency> kept;
    while (Span* span = spans_.pop()) {
      const std::uint32_t seen = span->sample();
      if (span->free_blocks() == all && span->mark_full(seen))
        put(span);
      else
        kept.push(span);
    }
    while (Span* span = kept.pop()) spans_.push(span);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (owner == 0 || closing(owner)) empty(settle);
  }

  template <class Settle>
  void close(Settle settle) {
    owner_.store(0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    empty(settle);
  }

 private:
  // What settle() lists again, for who has the list meanwhile, stays.
  template <class Settle>
  void empty(Settle settle) {
    core::TaggedStack<Span, Concurrency> all;
    while (Span* span = spans_.pop()) all.push(span);
    while (Span* span = all.pop()) {
      span->unmark_reuse(span->sample());
      settle(span);
    }
  }

  typename Concurrency::template Atomic<std::uint64_t> owner_{0};
  core::TaggedStack<Span, Concurrency> spans_;
};

}  // namespace heapyard
