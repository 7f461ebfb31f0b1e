// SPDX-License-Identifier: Apache-2.0
// A small stack of free blocks per thread and size class, without a lock.
//
// Idea: BFM's thread-specific cache (paper, section 3.4) with depth d = 8. An empty stack gets d/2 blocks, and a full
// one gives d/2 back, each under one acquisition of the heap's lock. The oldest blocks go back; the heap below groups
// them by owner.
// Cost: O(1) and no atomic instruction while the stack is neither empty nor full; else O(d) and one call of the heap.
// Memory per thread: at most d blocks of each class that the thread frees. Threads: each its own; at exit everything
// goes back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/front_ends.hpp"

namespace heapyard {

// Owner: the heap, whose threads' stacks these are.
template <SpanHeap Spans, RangeSource Ranges, unsigned Depth, class Owner>
class ThreadCache : public NothingHeld {
  static_assert(Depth % 2 == 0 && Depth > 0 && Depth < 256);

 public:
  static constexpr unsigned kClasses = Spans::kClasses;

  struct Thread {
    static Thread nobody;
    unsigned heap;
    std::uint8_t depth;  // 0 for nobody, who takes nothing
    std::uint8_t count[Spans::kClasses];
    void* stack[Spans::kClasses][Depth];
    std::atomic<Thread*> link;  // with `before`: of all front ends
    Thread* before;
  };
  using Entry = heapyard::Entry<Thread, Owner>;
  using Visit = typename Entry::Visit;

  constexpr ThreadCache(Spans& spans, Ranges& ranges) : spans_(spans), ranges_(ranges) {}

  // A block, or null: refill() must be asked.
  void* allocate(unsigned size_class) {
    Thread* thread = Entry::take();
    const unsigned count = thread->count[size_class];
    if (count == 0) [[unlikely]] {
      Entry::put(thread);
      return nullptr;
    }
    thread->count[size_class] = static_cast<std::uint8_t>(count - 1);
    void* block = thread->stack[size_class][count - 1];
    Entry::put(thread);
    if (block == nullptr) __builtin_unreachable();  // spares the caller a test
    return block;
  }

  // Whether the block was taken; if not, release() must be asked.
  bool free(unsigned size_class, void* block) {
    Thread* thread = Entry::take();
    const unsigned count = thread->count[size_class];
    if (count >= thread->depth) [[unlikely]] {
      Entry::put(thread);
      return false;
    }
    thread->stack[size_class][count] = block;
    std::atomic_signal_fence(std::memory_order_release);  // a child forked right here finds no stale block
    thread->count[size_class] = static_cast<std::uint8_t>(count + 1);
    Entry::put(thread);
    return true;
  }

  // A block of a thread that is inside, or null.
  static void* pop(Thread& thread, unsigned size_class) {
    std::uint8_t& count = thread.count[size_class];
    return count == 0 ? nullptr : thread.stack[size_class][--count];
  }

  // What allocate() had not at hand; null when memory is out. `visit` must not be `again`.
  void* refill(const Visit& visit, unsigned size_class) {
    if (visit.thread == nullptr) return direct(size_class);
    Thread& thread = *visit.thread;
    std::uint8_t& count = thread.count[size_class];
    void* blocks[Depth / 2];
    const unsigned got = spans_.allocate(size_class, blocks, Depth / 2, thread.heap);
    if (got == 0) return nullptr;
    // The first was freed last, or lies lowest: it is handed out first.
    for (unsigned i = 0; i < got; ++i) thread.stack[size_class][i] = blocks[got - 1 - i];
    count = static_cast<std::uint8_t>(got);
    return thread.stack[size_class][--count];
  }

  // Takes a block for which the stack had no room. `visit` must not be `again`.
  void release(const Visit& visit, unsigned size_class, void* block) {
    if (visit.thread == nullptr) {
      spans_.free(&block, 1);
      return;
    }
    Thread& thread = *visit.thread;
    if (thread.count[size_class] == Depth) {
      void** stack = thread.stack[size_class];
      spans_.free(stack, Depth / 2);
      std::memcpy(stack, stack + Depth / 2, Depth / 2 * sizeof(void*));
      thread.count[size_class] = Depth / 2;
    }
    thread.stack[size_class][thread.count[size_class]++] = block;
  }

  // The front end of a thread that comes for the first time; null when memory is out.
  Thread* start() {
    Thread* thread = all_.take();
    if (thread == nullptr) {
      void* memory = ranges_.allocate(sizeof(Thread));
      if (memory == nullptr) return nullptr;
      thread = static_cast<Thread*>(std::memset(memory, 0, sizeof(Thread)));
      all_.add(thread);
    }
    thread->heap = spans_.heap_of_new_thread();
    thread->depth = Depth;
    return thread;
  }

  // Everything the thread holds goes back. O(classes x depth).
  void stop(Thread* thread) {
    thread->depth = 0;
    for (unsigned c = 0; c < Spans::kClasses; ++c) {
      if (thread->count[c] > 0) spans_.free(thread->stack[c], thread->count[c]);
      thread->count[c] = 0;
    }
    all_.give_back(thread);
  }

  // In a child: what threads held that it has not. `own`: that of its one thread, or null.
  void take_over(const Thread* own) {
    all_.for_each([&](Thread* thread) {
      if (thread != own && thread->depth != 0) stop(thread);
    });
  }

  // Of the blocks that threads keep, and of the front ends themselves. Exact while threads do nothing. O(threads x
  // classes).
  std::size_t free_bytes() {
    std::size_t bytes = 0;
    all_.for_each([&](Thread* thread) {
      bytes += ranges_.occupied(thread);
      for (unsigned c = 0; c < Spans::kClasses; ++c) {
        bytes += __atomic_load_n(&thread->count[c], __ATOMIC_RELAXED) * Spans::occupied(c);
      }
    });
    return bytes;
  }

 private:
  void* direct(unsigned size_class) {
    void* block;
    return spans_.allocate(size_class, &block, 1, 0) == 1 ? block : nullptr;
  }

  Spans& spans_;
  Ranges& ranges_;
  FrontEnds<Thread> all_;
};

template <SpanHeap Spans, RangeSource Ranges, unsigned Depth, class Owner>
constinit typename ThreadCache<Spans, Ranges, Depth, Owner>::Thread
    ThreadCache<Spans, Ranges, Depth, Owner>::Thread::nobody{};

}  // namespace heapyard
