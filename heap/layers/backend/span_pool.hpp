// Free virtual spans, on as many lock-free stacks as there are processors, for each size of real span.
//
// Idea: scalloc's span-pool (OOPSLA 2015, section 3.4). A thread puts and gets at its own stack first, looks at the
// others of the same size, then at other sizes, smaller ones first; only then is a new virtual span cut. Policy:
// whether memory behind the first page is given back when a span comes (eager), and how many stacks there may be.
// The first page stays: the span's epoch and link live there. Cost: put O(1) and at most one system call; get
// O(slots x stacks). Threads: any.
#pragma once

#include <atomic>
#include <cstddef>

#include "heap/core/scalloc_classes.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/os/pages.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

struct EagerMadvise {
  static constexpr bool kGivesBack = true;
};
struct NoMadvise {
  static constexpr bool kGivesBack = false;
};

// Backends: stacks of a slot at most.
// Span: has `std::atomic<Span*> link`, in_class(), and a first page that must stay.
template <class Span, class Spans, class Pages, class Policy, unsigned Backends>
class SpanPool {
 public:
  static constexpr unsigned kSlots = 13;

  constexpr explicit SpanPool(Spans& spans) : spans_(spans) {}

  // A span for class c, zeroed or used, the caller's alone; null when there are none. `thread`: any number of its
  // own.
  Span* get(unsigned c, unsigned thread) {
    const unsigned own = thread % backends();
    const unsigned slot = core::ScallocClasses::kShapes[c].slot;
    for (unsigned away = 0; away < kSlots; ++away) {
      const unsigned at = (slot + kSlots - away) % kSlots;
      for (unsigned i = 0; i < backends(); ++i) {
        Stack& stack = stacks_[at][(own + i) % backends()];
        if (stack.spans.empty()) continue;
        if (Span* span = stack.spans.pop()) return span;
      }
    }
    return static_cast<Span*>(spans_.allocate());
  }

  void put(Span* span, unsigned thread) {
    const auto& shape = core::ScallocClasses::kShapes[span->in_class()];
    if (Policy::kGivesBack && span->in_class() > core::ScallocClasses::kFine) {
      const std::size_t page = os::page_bytes();
      Pages::decommit(reinterpret_cast<char*>(span) + page, os::round_up(shape.span, page) - page);
    }
    stacks_[shape.slot][thread % backends()].spans.push(span);
  }

 private:
  struct alignas(64) Stack {
    core::TaggedStack<Span> spans;
  };

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
