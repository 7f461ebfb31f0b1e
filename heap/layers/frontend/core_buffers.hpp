// SPDX-License-Identifier: Apache-2.0
// As many allocation buffers as there are processors, shared by the threads in turn: scalloc's core-local allocation
// buffers (CLABs).
//
// Idea: OOPSLA 2015, section 1: thread k uses buffer k mod processors, under the buffer's lock. There are fewer hot
// spans, so less memory, at the cost of a lock per operation. While the process has one thread the lock costs no atomic
// instruction. The published code goes without the lock while a buffer has one thread; ours always takes it.
// Cost: as the buffer's, and a lock. The fast paths only try the lock, because a fork may hold it. A thread that would
// have to wait takes the slow path, where the gate says whether it may (layers/gate.hpp). Fork: no buffer is lost. Lock
// order: a buffer's lock, then a list's.
#pragma once

#include <atomic>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

// Most: buffers at most. Owner: the heap, whose threads' buffers these are.
template <ThreadBuffer Buffer, unsigned Most, class Owner>
class CoreBuffers {
 public:
  using Pool = typename Buffer::Pool;
  using Span = typename Buffer::Span;
  struct Guarded {
    os::Lock lock;
    Buffer buffer;
  };
  struct Thread {
    static Thread nobody;
    Guarded* guarded;
  };
  using Entry = heapyard::Entry<Thread, Owner>;
  using Visit = typename Entry::Visit;

  constexpr explicit CoreBuffers(Pool& pool) : pool_(pool) {}

  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void* block = nullptr;
    if (Guarded* guarded = thread->guarded; guarded != nullptr && guarded->lock.try_lock()) [[likely]] {
      block = guarded->buffer.allocate(c);
      guarded->lock.unlock();
    }
    Entry::put(thread);
    return block;
  }

  bool free(Span* span, void* block) {
    Thread* thread = Entry::take();
    bool freed = false;
    if (Guarded* guarded = thread->guarded; guarded != nullptr && guarded->lock.try_lock()) [[likely]] {
      freed = guarded->buffer.free(span, block);
      guarded->lock.unlock();
    }
    Entry::put(thread);
    return freed;
  }

  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread == nullptr) [[unlikely]]
      return nullptr;
    Guarded& guarded = *visit.thread->guarded;
    const os::Locked locked(guarded.lock);
    void* block = guarded.buffer.allocate(c);  // another thread may have refilled it
    return block != nullptr ? block : guarded.buffer.refill(pool_, c);
  }

  void release(const Visit& visit, Span* span, void* block) {
    if (visit.thread == nullptr) return Buffer::release(pool_, nullptr, span, block);
    Guarded& guarded = *visit.thread->guarded;
    const os::Locked locked(guarded.lock);
    Buffer::release(pool_, &guarded.buffer, span, block);
  }

  Thread* start() {
    const unsigned processors = os::processors(), count = processors < Most ? processors : Most;
    const unsigned at = next_.fetch_add(1, std::memory_order_relaxed) % count;
    self_.guarded = &buffers_[at];
    const os::Locked locked(self_.guarded->lock);
    if (!self_.guarded->buffer.is_open()) self_.guarded->buffer.open(at + 1);
    return &self_;
  }

  void stop(Thread*) {}
  void take_over(const Thread*) {}

  // The fast paths hold a buffer's lock, and are not inside for the gate. So the first of the forks that overlap takes
  // all locks, the last gives them back. `waits`: for who holds one; else false if somebody does.
  bool fork_prepare(bool waits) {
    const os::Locked locked(forking_);
    if (forks_ == 0 && !hold_all(waits)) return false;
    ++forks_;
    return true;
  }
  void fork_parent() {
    const os::Locked locked(forking_);
    if (--forks_ == 0) release(Most);
  }
  // `forks`: those that the child is in the middle of; the locks are held once for all of one thread.
  void fork_child(unsigned forks) {
    forking_.reset();
    forks_ = forks != 0 ? 1 : 0;
    if (forks != 0) return;
    for (Guarded& guarded : buffers_) guarded.lock.reset();
  }

  // Empty spans that buffers have listed go to the pool. O(spans listed), and O(1) if none became empty since.
  void release_idle(const Thread*, std::size_t) {
    if (!pool_.expects_empty()) return;
    for (Guarded& guarded : buffers_) guarded.buffer.release_empty(pool_);
  }

  std::size_t free_bytes() { return 0; }  // beyond what its spans know: VirtualSpanMap::usage()

 private:
  bool hold_all(bool waits) {
    for (unsigned i = 0; i < Most; ++i) {
      if (waits) {
        buffers_[i].lock.lock();
      } else if (!buffers_[i].lock.try_lock()) {
        release(i);
        return false;
      }
    }
    return true;
  }
  void release(unsigned count) {
    for (unsigned i = 0; i < count; ++i) buffers_[i].lock.unlock();
  }

  static inline constinit thread_local Thread self_{};
  Pool& pool_;
  std::atomic<unsigned> next_{0};
  os::Lock forking_;    // held for a moment only
  unsigned forks_ = 0;  // at once
  Guarded buffers_[Most];
};

template <ThreadBuffer Buffer, unsigned Most, class Owner>
constinit typename CoreBuffers<Buffer, Most, Owner>::Thread CoreBuffers<Buffer, Most, Owner>::Thread::nobody{};

}  // namespace heapyard
