// A thread's allocation buffer: per size class one hot span to allocate from, and a list of spans that are worth
// reusing.
//
// Idea: scalloc's thread-local allocation buffer (OOPSLA 2015, section 3.3). malloc takes from the hot span; free
// puts a block back into its span, whoever owns it, and moves the span: entirely free ones go to the pool in the
// very call that empties them (unless the variant is lazy), those with more free blocks than the threshold become
// reusable. Spans of threads that ended are adopted by who frees into them. Cost: constant apart from retries;
// taking a span from the pool O(slots x stacks). Threads: the hot span is its owner's; lists have a lock each. Lock
// order: a list's lock alone.
//
// INVARIANT: REUSE in a span's epoch says that it is on the list of its owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/core/ring.hpp"
#include "heap/core/scalloc_classes.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

// Percent: of a span's blocks that must be free for it to be reused; 100 means never before it is empty.
template <class Pool, class Pages, unsigned Percent = 80>
class AllocationBuffer {
  using Classes = core::ScallocClasses;

 public:
  struct Thread {
    static Thread nobody;
    static ListSpan no_span;  // of nobody: no blocks, so fast paths fail

    constexpr explicit Thread(ListSpan* empty) {
      for (ListSpan*& span : hot) span = empty;
    }

    ListSpan* hot[Classes::kClasses] = {};
    std::atomic<std::uint64_t> id{0};  // core::Tagged of this buffer while its thread lives; else 0
    struct Reusable {
      os::Lock lock;
      std::uint64_t owner = 0;
      core::Ring<ListSpan> spans;
    } reusable[Classes::kClasses];
    std::atomic<Thread*> link{nullptr};  // of the stack of buffers without a thread
    Thread* before = nullptr;            // made before this one; never changes
    unsigned number = 0;
  };
  using Entry = heapyard::Entry<Thread>;
  using Visit = typename Entry::Visit;

  constexpr explicit AllocationBuffer(Pool& pool) : pool_(pool) {}

  static std::uint32_t threshold(unsigned c) { return Classes::kShapes[c].blocks * Percent / 100; }

  // A block of the hot span, or null: refill() must be asked.
  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void* block = thread->hot[c]->take(Classes::kShapes[c].bytes, Classes::kShapes[c].blocks);
    Entry::put(thread);
    return block;
  }

  // Whether that was all: the block is the thread's own, in a hot span. Else release() must be asked.
  bool free(ListSpan* span, void* block) {
    Thread* thread = Entry::take();
    const bool own = thread->hot[span->in_class()] == span;
    if (own) [[likely]]
      span->put_local(block, std::memory_order_relaxed);
    Entry::put(thread);
    return own;
  }

  // When the hot span has no block left. `visit` must not be `again`. Null when memory is out.
  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread == nullptr) return without_buffer(c);
    Thread& thread = *visit.thread;
    ListSpan*& hot = thread.hot[c];
    const auto& shape = Classes::kShapes[c];
    if (hot != &Thread::no_span) {
      if (hot->remote_count() > threshold(c)) {
        hot->take_remote();
      } else {
        ListSpan* span = hot;
        hot = &Thread::no_span;
        span->mark_floating();
        settle(span, thread.number);  // what was freed meanwhile
      }
    }
    if (hot == &Thread::no_span) {
      ListSpan* span = next_span(thread, c);
      if (span == nullptr) return nullptr;
      hot = span;
    }
    return hot->take(shape.bytes, shape.blocks);
  }

  // A block that is not of this thread's hot span. `visit` must not be `again`.
  void release(const Visit& visit, ListSpan* span, void* block) {
    std::uint64_t owner = span->owner.load(std::memory_order_acquire);
    Thread* thread = visit.thread;
    const std::uint64_t own = thread != nullptr ? thread->id.load(std::memory_order_relaxed) : 0;
    if (thread != nullptr && owner == own) {
      span->put_local(block, std::memory_order_seq_cst);
    } else {
      // From here on the span may be anybody's, unless its owner is gone and we adopt it with our block still out.
      if (thread != nullptr && ended(owner)) {
        span->owner.compare_exchange_strong(owner, own, std::memory_order_acq_rel);
      }
      span->put_remote(block);
    }
    settle(span, thread != nullptr ? thread->number : 0);
  }

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
    const unsigned number = next_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t id = core::Tagged(thread, number & 0xffff).word();
    thread->number = number;
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      thread->hot[c] = &Thread::no_span;
      const os::Locked locked(thread->reusable[c].lock);
      thread->reusable[c].owner = id;
    }
    thread->id.store(id, std::memory_order_release);
    return thread;
  }

  // Hot and listed spans float, entirely free ones go to the pool; the others are adopted by who frees into them.
  void stop(Thread* thread) {
    for (unsigned c = 1; c < Classes::kClasses; ++c) {
      auto& reusable = thread->reusable[c];
      reusable.lock.lock();
      reusable.owner = 0;  // nothing is listed from here on
      while (ListSpan* span = reusable.spans.front()) {
        reusable.spans.remove(span);
        span->unmark_reuse(span->sample());
        reusable.lock.unlock();
        settle(span, thread->number);
        reusable.lock.lock();
      }
      reusable.lock.unlock();
      if (thread->hot[c] != &Thread::no_span) {
        ListSpan* span = thread->hot[c];
        thread->hot[c] = &Thread::no_span;
        span->mark_floating();
        settle(span, thread->number);
      }
    }
    thread->id.store(0, std::memory_order_release);
    unused_.push(thread);
  }

  // Holds every list, and that no buffer is made, across a fork.
  void fork_prepare() {
    making_.lock();
    for_each_list([](os::Lock& lock) { lock.lock(); });
  }
  void fork_parent() {
    for_each_list([](os::Lock& lock) { lock.unlock(); });
    making_.unlock();
  }
  // The other threads are gone; their spans become anybody's.
  void fork_child(Thread* own) {
    making_.reset();
    for_each_list([](os::Lock& lock) { lock.reset(); });
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) {
      if (thread != own && thread->id.load(std::memory_order_relaxed) != 0) stop(thread);
    }
  }

 private:
  // A span for the hot slot, its remote blocks taken.
  ListSpan* next_span(Thread& thread, unsigned c) {
    auto& reusable = thread.reusable[c];
    {
      const os::Locked locked(reusable.lock);
      if (ListSpan* front = reusable.spans.front()) {
        ListSpan* span = front->prev;  // listed first
        reusable.spans.remove(span);
        span->mark_hot();
        span->take_remote();
        return span;
      }
    }
    ListSpan* span = pool_.get(c, thread.number);
    if (span == nullptr) return nullptr;
    span->mark_hot();
    span->init(c, Classes::kShapes[c].blocks, thread.id.load(std::memory_order_relaxed));
    return span;
  }

  // For a thread that has ended: one block of a span that then floats without an owner.
  void* without_buffer(unsigned c) {
    ListSpan* span = pool_.get(c, 0);
    if (span == nullptr) return nullptr;
    span->mark_hot();
    span->init(c, Classes::kShapes[c].blocks, 0);
    void* block = span->take(Classes::kShapes[c].bytes, Classes::kShapes[c].blocks);
    span->mark_floating();
    return block;
  }

  static bool ended(std::uint64_t owner) {
    Thread* of = core::Tagged(owner).template pointer<Thread>();
    return of == nullptr || of->id.load(std::memory_order_acquire) != owner;
  }

  // What becomes of a span into which blocks came back. Any thread may ask at any time: the sample is taken
  // first, and a transition wins only if nothing moved the span since; a span that is not hot gives no block, so
  // what was counted holds. Bound of the loop: each turn is a transition that another thread made.
  void settle(ListSpan* span, unsigned number) {
    for (;;) {
      const std::uint32_t seen = span->sample();
      if (seen & (ListSpan::kHot | ListSpan::kFull)) return;
      const unsigned c = span->in_class();
      const std::uint64_t owner = span->owner.load(std::memory_order_acquire);
      const std::uint32_t all = Classes::kShapes[c].blocks, free = span->free_blocks();
      Thread* of = core::Tagged(owner).template pointer<Thread>();
      const bool listed = seen & ListSpan::kReuse;
      if (free == all) {
        if (listed ? unlist(span, seen, owner, of, c) : span->mark_full(seen)) return pool_.put(span, number);
      } else {
        if (free <= threshold(c) || listed || ended(owner)) return;
        const os::Locked locked(of->reusable[c].lock);
        if (of->reusable[c].owner != owner) return;  // ends just now, and looks itself
        if (span->mark_reuse(seen)) return of->reusable[c].spans.push_front(span);
      }
    }
  }

  // Whether a listed span was taken off its list for good.
  static bool unlist(ListSpan* span, std::uint32_t seen, std::uint64_t owner, Thread* of, unsigned c) {
    if (of == nullptr) return false;
    const os::Locked locked(of->reusable[c].lock);
    if (of->reusable[c].owner != owner || !span->mark_full(seen)) return false;
    of->reusable[c].spans.remove(span);
    return true;
  }

  template <class Visit_>
  void for_each_list(Visit_ visit) {
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) {
      for (auto& list : thread->reusable) visit(list.lock);
    }
  }

  Pool& pool_;
  core::TaggedStack<Thread> unused_;
  std::atomic<unsigned> next_{0};
  os::Lock making_;
  Thread* made_ = nullptr;  // every buffer ever, the newest first
};

template <class Pool, class Pages, unsigned Percent>
constinit ListSpan AllocationBuffer<Pool, Pages, Percent>::Thread::no_span{};

template <class Pool, class Pages, unsigned Percent>
constinit
    typename AllocationBuffer<Pool, Pages, Percent>::Thread AllocationBuffer<Pool, Pages, Percent>::Thread::nobody{
        &no_span};

}  // namespace heapyard
