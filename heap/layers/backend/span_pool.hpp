// SPDX-License-Identifier: Apache-2.0
// Free virtual spans, on as many lock-free stacks as there are processors, for each size of real span.
//
// Idea: scalloc's span-pool (OOPSLA 2015, section 3.4). A thread puts to and gets from its own stack first. To get, it
// then tries the other stacks of the same size, then other sizes, smaller ones first. Only then is a new virtual span
// cut. A policy says whether a span that comes gives back the memory behind its first page (eager), and how many stacks
// there may be. The first page stays, because the span's epoch and link live there. A span that serves another class
// gets more of its virtual span mapped, if need be.
// Cost: put O(1) and at most one system call; get O(slots x stacks) and at most that of a span's growth; trim O(spans)
// system calls. Threads: any. Atomics: core/concurrency.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/core/tagged_stack.hpp"
#include "heap/layers/span_concepts.hpp"
#include "heap/os/threads.hpp"
#include "heap/tracing/page_events.hpp"

namespace heapyard {

struct EagerMadvise {
  static constexpr bool kGivesBack = true;
};
struct NoMadvise {
  static constexpr bool kGivesBack = false;
};

// Backends: stacks of a slot at most.
// Span: has Concurrency, `Atomic<Span*> link`, in_class(), and a first page that must stay; the pool's are `there`, how
// many of its bytes are mapped, and `before`, the span made before it. Spans: VirtualSpans or PageGroups.
template <PooledClasses Classes, PooledSpan SpanT, SpanSource Spans, GiveBackPolicy OnEmpty, unsigned Backends>
class SpanPool {
 public:
  using Span = SpanT;
  static constexpr unsigned kSlots = Classes::kSlots;

  constexpr explicit SpanPool(Spans& spans) : spans_(spans) {}

  // A span for class c, zeroed or used, the caller's alone; null when there are none. `thread`: any number of its
  // own.
  Span* get(unsigned c, unsigned thread) {
    const std::size_t bytes = Classes::kShapes[c].span;
    Span* span = find(Classes::kShapes[c].slot, thread);
    if (span == nullptr) {
      if (!wasteful_[c].load(std::memory_order_relaxed) || !spans_.sparing()) [[likely]]
        span = make(bytes);
    } else if (std::size_t there = span->there; bytes > there) {
      if (spans_.extend(span, bytes, there)) {
        span->there = static_cast<std::uint32_t>(there);
      } else {
        push(span, thread);
        span = nullptr;
      }
    }
    if (span != nullptr) tracing::page_taken(span, bytes);
    return span;
  }

  void put(Span* span, unsigned thread) {
    tracing::page_returned(span);
    if (!came_.load(std::memory_order_relaxed)) came_.store(true, std::memory_order_relaxed);
    if (OnEmpty::kGivesBack && span->in_class() > Classes::kFine) give_back(span, false);
    push(span, thread);
  }

  // What requests of class c leave unused of it, as last seen: no span is made for a wasteful class where memory is
  // short. A hint.
  void expect_waste(unsigned c, bool wasteful) {
    if (wasteful_[c].load(std::memory_order_relaxed) != wasteful)
      wasteful_[c].store(wasteful, std::memory_order_relaxed);
  }

  // Lists elsewhere may hold empty spans now. Whether one came since this was last asked: a hint.
  void expect_empty() {
    if (!expected_.load(std::memory_order_relaxed)) expected_.store(true, std::memory_order_relaxed);
  }
  bool expects_empty() { return take(expected_); }

  // Gives back all but the first page of each span that is here now; their address space too, if `all`: O(1) then when
  // none came since.
  void trim(bool all) {
    if (all && !take(came_)) return;
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      for (unsigned i = 0; i < backends(); ++i) {
        core::TaggedStack<Span, typename Span::Concurrency> kept;
        while (Span* span = stacks_[slot][i].spans.pop()) {
          give_back(span, all);
          kept.push(span);
        }
        while (Span* span = kept.pop()) stacks_[slot][i].spans.push(span);
      }
    }
  }

  // Calls work(span) for every span that was ever made, here or in use. Meanwhile no span's memory is taken away, so
  // that work may read a span that it found in use. O(spans).
  template <class Work>
  void for_each(Work work) const {
    readers_.fetch_add(1, std::memory_order_seq_cst);
    for (Span* span = made_.load(std::memory_order_acquire); span != nullptr; span = span->before) work(span);
    readers_.fetch_sub(1, std::memory_order_release);
  }

 private:
  struct alignas(64) Stack {
    core::TaggedStack<Span, typename Span::Concurrency> spans;
  };

  static bool take(std::atomic<bool>& hint) {
    return hint.load(std::memory_order_relaxed) && hint.exchange(false, std::memory_order_relaxed);
  }

  Span* make(std::size_t bytes) {
    std::size_t there = 0;
    auto* span = static_cast<Span*>(spans_.allocate(bytes, there));
    if (span == nullptr) return nullptr;
    span->there = static_cast<std::uint32_t>(there);
    span->before = made_.load(std::memory_order_relaxed);
    // Bound: each turn is a span that another thread made.
    while (!made_.compare_exchange_weak(span->before, span, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return span;
  }

  void push(Span* span, unsigned thread) {
    stacks_[Classes::kShapes[span->in_class()].slot][thread % backends()].spans.push(span);
  }

  // A reader that is not seen here finds this span out of use: its state was changed before. O(1) and a system call.
  void give_back(Span* span, bool all) {
    if (readers_.load(std::memory_order_seq_cst) != 0) return;
    std::size_t there = span->there;
    spans_.give_back(span, there, all);
    span->there = static_cast<std::uint32_t>(there);
  }

  // Own stack first, own slot first, then smaller ones.
  Span* find(unsigned slot, unsigned thread) {
    const unsigned own = thread % backends();
    for (unsigned away = 0; away < kSlots; ++away) {
      const unsigned at = (slot + kSlots - away) % kSlots;
      for (unsigned i = 0; i < backends(); ++i) {
        Stack& stack = stacks_[at][(own + i) % backends()];
        if (stack.spans.empty()) continue;
        if (Span* span = stack.spans.pop()) return span;
      }
    }
    return nullptr;
  }

  unsigned backends() {
    unsigned count = backends_.load(std::memory_order_relaxed);
    if (count == 0) {
      count = os::processors() < Backends ? os::processors() : Backends;
      backends_.store(count, std::memory_order_relaxed);  // every thread finds the same number
    }
    return count;
  }

  Spans& spans_;
  std::atomic<Span*> made_{nullptr};          // the newest; each leads to the one before it
  mutable std::atomic<unsigned> readers_{0};  // that go through all spans
  std::atomic<bool> came_{false};             // a span, since all address space was given back
  std::atomic<bool> expected_{false};
  std::atomic<bool> wasteful_[Classes::kClasses] = {};
  std::atomic<unsigned> backends_{0};
  Stack stacks_[kSlots][Backends];
};

}  // namespace heapyard
