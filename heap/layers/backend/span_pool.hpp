// Free virtual spans, on as many lock-free stacks as there are processors, for each size of real span.
//
// Idea: scalloc's span-pool (OOPSLA 2015, section 3.4). A thread puts and gets at its own stack first, looks at the
// others of the same size, then at other sizes, smaller ones first; only then is a new virtual span cut. Policy:
// whether memory behind the first page is given back when a span comes (eager), and how many stacks there may be.
// The first page stays: the span's epoch and link live there. Cost: put O(1) and at most one system call; get
// O(slots x stacks); trim O(spans) system calls. Threads: any. Atomics: core/concurrency.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/tagged_stack.hpp"
#include "heap/os/pages.hpp"
#include "heap/os/threads.hpp"
#include "heap/os/page_events.hpp"

namespace heapyard {

struct EagerMadvise {
  static constexpr bool kGivesBack = true;
};
struct NoMadvise {
  static constexpr bool kGivesBack = false;
};

// Backends: stacks of a slot at most.
// Span: has Concurrency, `Atomic<Span*> link`, in_class(), and a first page that must stay.
template <class Classes, class SpanT, class Spans, class OnEmpty, unsigned Backends>
class SpanPool {
 public:
  using Span = SpanT;
  static constexpr unsigned kSlots = Classes::kSlots;

  constexpr explicit SpanPool(Spans& spans) : spans_(spans) {}

  // A span for class c, zeroed or used, the caller's alone; null when there are none. `thread`: any number of its
  // own.
  Span* get(unsigned c, unsigned thread) {
    Span* span = find(Classes::kShapes[c].slot, thread);
    if (span == nullptr) span = static_cast<Span*>(spans_.allocate());
    if (span == nullptr) return nullptr;
    if (spans_.commit(span, Classes::kShapes[c].span)) {
      os::page_taken(span, Classes::kShapes[c].span);
      return span;
    }
    // With a first page that cannot be had there is no link: then address space is lost, no memory.
    if (spans_.commit(span, sizeof(Span))) stacks_[0][thread % backends()].spans.push(span);
    return nullptr;
  }

  void put(Span* span, unsigned thread) {
    os::page_returned(span);
    if (OnEmpty::kGivesBack && span->in_class() > Classes::kFine) give_back(span);
    stacks_[Classes::kShapes[span->in_class()].slot][thread % backends()].spans.push(span);
  }

  // Gives back all but the first page of each span that is here now.
  void trim() {
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      for (unsigned i = 0; i < backends(); ++i) {
        core::TaggedStack<Span, typename Span::Concurrency> kept;
        while (Span* span = stacks_[slot][i].spans.pop()) {
          give_back(span);
          kept.push(span);
        }
        while (Span* span = kept.pop()) stacks_[slot][i].spans.push(span);
      }
    }
  }

  // Its stacks need nothing; a source of spans with a lock does.
  void fork_prepare() { spans_.fork_prepare(); }
  void fork_parent() { spans_.fork_parent(); }
  void fork_child() { spans_.fork_child(); }

 private:
  struct alignas(64) Stack {
    core::TaggedStack<Span, typename Span::Concurrency> spans;
  };

  void give_back(Span* span) {
    const std::size_t page = os::page_bytes();
    const auto start = reinterpret_cast<std::uintptr_t>(span);
    const std::uintptr_t first = (start & ~(page - 1)) + page;
    const std::uintptr_t end = os::round_up(start + Classes::kShapes[span->in_class()].span, page);
    if (end > first) spans_.give_back(reinterpret_cast<void*>(first), end - first);
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
  std::atomic<unsigned> backends_{0};
  Stack stacks_[kSlots][Backends];
};

}  // namespace heapyard
