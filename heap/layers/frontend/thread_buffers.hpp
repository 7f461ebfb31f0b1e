// An allocation buffer for each thread: scalloc's thread-local allocation buffers (TLABs).
//
// Idea: OOPSLA 2015, section 3.3. A buffer is made on a thread's first visit and handed on when the thread has ended.
// Cost: no lock and no atomic instruction while the hot span has blocks. Fork: the buffers of threads that the child
// has not are closed, so their blocks are not lost. Memory per thread: one buffer, reused for ever.
#pragma once

#include <atomic>

#include "heap/core/tagged_stack.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/sampling.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

template <class Buffer, class Pages>
class ThreadBuffers {
 public:
  static constexpr bool kSampled = Buffer::kSampled;
  using Pool = typename Buffer::Pool;
  using Span = typename Buffer::Span;
  using Thread = Buffer;
  using Entry = heapyard::Entry<Thread>;
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

  // The interval of the sample that the next block is, or 0.
  std::uint32_t due(const Visit& visit, unsigned c, std::size_t counted) {
    return visit.thread == nullptr ? Sampled::due_alone(counted) : visit.thread->due(c, counted);
  }

  // The slow halves. `visit` must not be `again`.
  void* refill(const Visit& visit, unsigned c) {
    return visit.thread == nullptr ? Buffer::one_block(pool_, c) : visit.thread->refill(pool_, c);
  }
  void release(const Visit& visit, Span* span, void* block) { Buffer::release(pool_, visit.thread, span, block); }

  // The buffer of a thread that comes for the first time; null when memory is out.
  Thread* start() {
    Thread* thread = unused_.pop();
    if (thread == nullptr) {
      void* memory = Pages::map(sizeof(Thread));
      if (memory == nullptr) return nullptr;
      thread = static_cast<Thread*>(memory);  // zeroed: unlocked locks, empty lists
      const os::Locked locked(making_);
      thread->before = made_;
      made_ = thread;
    }
    thread->open(next_.fetch_add(1, std::memory_order_relaxed) + 1);
    return thread;
  }

  void stop(Thread* thread) {
    thread->close(pool_);
    unused_.push(thread);
  }

  void fork_prepare() {
    making_.lock();
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) thread->fork_prepare();
  }
  void fork_parent() {
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) thread->fork_parent();
    making_.unlock();
  }
  void fork_child(Thread* own) {
    making_.reset();
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) thread->fork_child();
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) {
      if (thread != own && thread->is_open()) stop(thread);
    }
  }

 private:
  Pool& pool_;
  core::TaggedStack<Thread> unused_;
  std::atomic<unsigned> next_{0};
  os::Lock making_;
  Thread* made_ = nullptr;  // every buffer ever, the newest first
};

}  // namespace heapyard
