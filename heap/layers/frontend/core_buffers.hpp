// As many allocation buffers as there are processors, shared by the threads in turn: scalloc's core-local allocation
// buffers (CLABs).
//
// Idea: OOPSLA 2015, section 1: thread k uses buffer k mod processors, under the buffer's lock. Fewer hot spans, so
// less memory, for a lock per operation; while the process has one thread the lock costs no atomic instruction. The
// published code goes without the lock while a buffer has one thread; ours always takes it. Cost: as the buffer's,
// and a lock. Fork: no buffer is lost. Lock order: a buffer's lock, then a list's.
#pragma once

#include <atomic>

#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

// Most: buffers at most.
template <class Buffer, unsigned Most>
class CoreBuffers {
 public:
  static constexpr bool kSampled = false;
  static_assert(!Buffer::kSampled);
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
  using Entry = heapyard::Entry<Thread>;
  using Visit = typename Entry::Visit;

  constexpr explicit CoreBuffers(Pool& pool) : pool_(pool) {}

  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void* block = nullptr;
    if (thread->guarded != nullptr) [[likely]] {
      const os::Locked locked(thread->guarded->lock);
      block = thread->guarded->buffer.allocate(c);
    }
    Entry::put(thread);
    return block;
  }

  bool free(Span* span, void* block) {
    Thread* thread = Entry::take();
    bool freed = false;
    if (thread->guarded != nullptr) [[likely]] {
      const os::Locked locked(thread->guarded->lock);
      freed = thread->guarded->buffer.free(span, block);
    }
    Entry::put(thread);
    return freed;
  }

  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread == nullptr) return Buffer::one_block(pool_, c);
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

  void fork_prepare() {
    for (Guarded& guarded : buffers_) {
      guarded.lock.lock();
      guarded.buffer.fork_prepare();
    }
  }
  void fork_parent() {
    for (Guarded& guarded : buffers_) {
      guarded.buffer.fork_parent();
      guarded.lock.unlock();
    }
  }
  void fork_child(Thread*) {
    for (Guarded& guarded : buffers_) {
      guarded.buffer.fork_child();
      guarded.lock.reset();
    }
  }

 private:
  static inline constinit thread_local Thread self_{};
  Pool& pool_;
  std::atomic<unsigned> next_{0};
  Guarded buffers_[Most];
};

template <class Buffer, unsigned Most>
constinit typename CoreBuffers<Buffer, Most>::Thread CoreBuffers<Buffer, Most>::Thread::nobody{};

}  // namespace heapyard
