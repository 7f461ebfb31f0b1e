// SPDX-License-Identifier: Apache-2.0
// No cache: every block comes from the heap of spans, one at a time. What a cache is measured against.
//
// Cost: one acquisition of the heap's lock per block. Threads: each remembers only which heap it uses.
#pragma once

#include <cstddef>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/front_ends.hpp"

namespace heapyard {

// Owner: the heap, whose threads these are.
template <SpanHeap Spans, class Owner>
class NoCache : public NothingHeld {
 public:
  struct Thread {
    static Thread nobody;
    unsigned heap;
  };
  using Entry = heapyard::Entry<Thread, Owner>;
  using Visit = typename Entry::Visit;

  constexpr explicit NoCache(Spans& spans) : spans_(spans) {}

  void* allocate(unsigned) { return nullptr; }
  bool free(unsigned, void*) { return false; }

  void* refill(const Visit& visit, unsigned size_class) {
    void* block;
    return spans_.allocate(size_class, &block, 1, visit.thread == nullptr ? 0 : visit.thread->heap) == 1 ? block
                                                                                                         : nullptr;
  }

  void release(const Visit&, unsigned, void* block) { spans_.free(&block, 1); }

  Thread* start() {
    self_.heap = spans_.heap_of_new_thread();
    return &self_;
  }

  void stop(Thread*) {}
  void take_over(const Thread*) {}
  std::size_t free_bytes() { return 0; }

 private:
  static inline constinit thread_local Thread self_{};
  Spans& spans_;
};

template <SpanHeap Spans, class Owner>
constinit typename NoCache<Spans, Owner>::Thread NoCache<Spans, Owner>::Thread::nobody{};

}  // namespace heapyard
