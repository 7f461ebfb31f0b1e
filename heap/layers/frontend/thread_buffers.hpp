// SPDX-License-Identifier: Apache-2.0
// An allocation buffer for each thread: scalloc's thread-local allocation buffers (TLABs).
//
// Idea: OOPSLA 2015, section 3.3. A buffer is made on a thread's first visit; when the thread has ended, another thread
// gets it. Cost: no lock and no atomic instruction while the hot span has blocks. Fork: the child closes the buffers of
// threads that it does not have, so their blocks are not lost. Memory per thread: one buffer, reused for ever.
#pragma once

#include <atomic>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/front_ends.hpp"
#include "heap/layers/frontend/thread_places.hpp"

namespace heapyard {

// Owner: the heap, whose threads' buffers these are.
template <ThreadBuffer Buffer, PageSource Pages, class Owner>
class ThreadBuffers : public NothingHeld {
 public:
  static constexpr unsigned kClasses = Buffer::Classes::kClasses;
  using Pool = typename Buffer::Pool;
  using Span = typename Buffer::Span;
  using Thread = Buffer;
  using Entry = heapyard::Entry<Thread, Owner>;
  using Visit = typename Entry::Visit;

  constexpr explicit ThreadBuffers(Pool& pool) : pool_(pool) {}

  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void* block = thread->allocate(c);
    Entry::put(thread);
    return block;
  }

  bool free(Span* span, void* block) {
    Thread* thread = Entry::take();
    const bool freed = thread->free(span, block);
    Entry::put(thread);
    return freed;
  }

  // A block of a thread that is inside, or null.
  static void* pop(Thread& thread, unsigned c) { return thread.allocate(c); }

  // The slow halves. `visit` must not be `again`. A thread without a buffer gets no block.
  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread == nullptr) [[unlikely]]
      return nullptr;
    return visit.thread->refill(pool_, c);
  }
  void release(const Visit& visit, Span* span, void* block) { Buffer::release(pool_, visit.thread, span, block); }

  // The buffer of a thread that comes for the first time; null when memory is out, or there are very many.
  Thread* start() {
    if (!places_.take()) return nullptr;
    Thread* thread = all_.take();
    if (thread == nullptr) {
      void* memory = Pages::map(sizeof(Thread));
      if (memory == nullptr) return places_.leave(), nullptr;
      thread = static_cast<Thread*>(memory);  // zeroed: unlocked locks, empty lists
      all_.add(thread);
    }
    thread->open(next_.fetch_add(1, std::memory_order_relaxed) + 1);
    return thread;
  }

  void stop(Thread* thread) {
    thread->close(pool_);
    all_.give_back(thread);
    places_.leave();
  }

  // In a child: what threads held that it has not. `own`: that of its one thread, or null.
  void take_over(const Thread* own) {
    all_.for_each([&](Thread* thread) {
      if (thread != own && thread->is_open()) stop(thread);
    });
  }

  // Empty spans that buffers have listed go to the pool. O(spans listed), and O(1) if none became empty since.
  void release_idle(const Thread*, std::size_t) {
    if (pool_.expects_empty()) all_.for_each([&](Thread* thread) { thread->release_empty(pool_); });
  }

  std::size_t free_bytes() { return 0; }  // beyond what its spans know: VirtualSpanMap::usage()

 private:
  Pool& pool_;
  ThreadPlaces places_;
  FrontEnds<Thread> all_;
  std::atomic<unsigned> next_{0};
};

}  // namespace heapyard
