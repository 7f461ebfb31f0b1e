// SPDX-License-Identifier: Apache-2.0
// Per thread and class an array of free blocks, as large as it earns within a budget.
//
// Idea: the array holds blocks of any span, so free needs to know the class of a block and nothing else. An array is
// empty at first, then of kFirst blocks, and doubles whenever it had to be filled or emptied, up to kMost blocks or
// kMostBytes. All arrays of a thread together may hold as much as a budget says: kBase bytes, and this thread's share
// of a part of what the heap has in use. Where that is spent, arrays of other classes shrink, one after the other. Half
// an array is filled from the depot (depot.hpp), or from the spans; and emptied to them. An array that has not been
// filled or emptied for a thousand slow paths of others, or two, is emptied wholly: its blocks keep spans in use. Cost:
// allocate and free O(1), without a lock or an atomic instruction. refill and release O(kMost) and that of the spans;
// they shrink at most kShrunk other arrays. Memory: two pages of a thread, and a word for each block that a grown array
// may hold. Fork: the child gives back what threads held that it does not have.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/layers/frontend/depot.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/front_ends.hpp"
#include "heap/layers/frontend/thread_places.hpp"
#include "heap/layers/page_concepts.hpp"

namespace heapyard {

// Owner: the composition, whose threads these are.
template <BlockSource SpansT, PageSource Pages, class Owner>
class Magazines : public NothingHeld {
 public:
  static constexpr bool kSampled = false;
  using Spans = SpansT;
  using Classes = typename Spans::Classes;
  static constexpr unsigned kClasses = Classes::kClasses;
  static constexpr std::size_t kFirst = 8, kMost = 60;  // blocks
  static constexpr std::size_t kFirstBytes = 2048, kMostBytes = 32768;
  static constexpr std::size_t kBase = std::size_t{128} << 10;  // bytes of a thread's budget
  static constexpr std::size_t kShare = 8;                      // of what is in use: one part, for all threads

  struct Thread {
    static Thread nobody;
    // By class; as arrays, for an index costs nothing then.
    void** top[kClasses];  // one past the block pushed last
    void** floor[kClasses];
    void** limit[kClasses];
    bool open;
    unsigned hand;              // the class that shrinks next
    unsigned part;              // of each class, that its blocks come from
    std::size_t budgeted;       // bytes that all arrays together may hold
    unsigned turns;             // slow paths
    unsigned watched;           // the class that was looked at last
    bool busy[kClasses];        // has had a slow path since it was looked at
    std::atomic<Thread*> link;  // with `before`: of all front ends
    Thread* before;
  };
  using Entry = heapyard::Entry<Thread, Owner>;
  using Visit = typename Entry::Visit;

  constexpr explicit Magazines(Spans& spans) : spans_(spans) {}

  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void** const top = thread->top[c];
    if (top == thread->floor[c]) [[unlikely]] {
      Entry::put(thread);
      return nullptr;
    }
    thread->top[c] = top - 1;
    void* block = top[-1];
    Entry::put(thread);
    if (block == nullptr) __builtin_unreachable();  // spares the caller a test
    return block;
  }

  // Whether the array took it; that of class 0 takes none.
  bool free(unsigned c, void* block) {
    Thread* thread = Entry::take();
    void** const top = thread->top[c];
    const bool taken = top != thread->limit[c];
    if (taken) [[likely]] {
      *top = block;
      std::atomic_signal_fence(std::memory_order_release);  // a child forked right here finds no stale block
      thread->top[c] = top + 1;
    }
    Entry::put(thread);
    return taken;
  }

  // What allocate() had not at hand. `visit` is not `again`. Null when memory is out.
  void* refill(const Visit& visit, unsigned c) {
    void* one;
    unsigned first = 0;
    if (visit.thread == nullptr) return spans_.allocate(c, &one, 1, first) == 1 ? one : nullptr;
    Thread& thread = *visit.thread;
    look_around(thread, c);
    grow(thread, c);
    void** const floor = thread.floor[c];
    const std::size_t room = capacity(thread, c);
    if (room == 0) return spans_.allocate(c, &one, 1, thread.part) == 1 ? one : nullptr;
    unsigned n = room < Depot::kMost ? 0 : depot_.get(c, floor, thread.part);
    if (n == 0) n = spans_.allocate(c, floor, static_cast<unsigned>((room + 1) / 2), thread.part);
    if (n == 0) return nullptr;
    thread.top[c] = floor + n - 1;
    return floor[n - 1];
  }

  // Takes a block that the array did not. `visit` must not be `again`.
  void release(const Visit& visit, unsigned c, void* block) {
    if (visit.thread == nullptr) return spans_.free(c, &block, 1);
    Thread& thread = *visit.thread;
    if (thread.top[c] == thread.limit[c]) {
      look_around(thread, c);
      grow(thread, c);
      if (thread.top[c] == thread.limit[c]) {
        const auto full = static_cast<unsigned>(thread.top[c] - thread.floor[c]);
        if (full == 0) return spans_.free(c, &block, 1);
        empty(thread, c, (full + 1) / 2);
      }
    }
    *thread.top[c]++ = block;
  }

  // Null when memory is out, or there are very many threads.
  Thread* start() {
    if (!places_.take()) return nullptr;
    Thread* thread = all_.take();
    if (thread == nullptr) {
      void* memory = Pages::map(kThread + kClasses * kMost * sizeof(void*));
      if (memory == nullptr) return places_.leave(), nullptr;
      thread = static_cast<Thread*>(memory);  // zeroed
      all_.add(thread);
    }
    for (unsigned c = 0; c < kClasses; ++c)
      thread->top[c] = thread->floor[c] = thread->limit[c] = first_array(*thread, c);
    thread->hand = 1;
    thread->part = 0;
    thread->budgeted = 0;
    threads_.fetch_add(1, std::memory_order_relaxed);
    thread->open = true;
    return thread;
  }

  // Everything the thread holds goes back. O(blocks held).
  void stop(Thread* thread) {
    bool grown = false;
    for (unsigned c = 1; c < kClasses; ++c) {
      const auto n = static_cast<unsigned>(thread->top[c] - thread->floor[c]);
      grown = grown || thread->floor[c] != first_array(*thread, c);
      thread->top[c] = thread->limit[c] = thread->floor[c];
      if (n != 0) spans_.free(c, thread->floor[c], n);
    }
    thread->open = false;
    if (grown) Pages::decommit(reinterpret_cast<char*>(thread) + kThread, kClasses * kMost * sizeof(void*));
    threads_.fetch_sub(1, std::memory_order_relaxed);
    all_.give_back(thread);
    places_.leave();
  }

  // In a child: what threads held that it has not. `own`: that of its one thread, or null.
  void take_over(const Thread* own) {
    all_.for_each([&](Thread* thread) {
      if (thread != own && thread->open) stop(thread);
    });
  }

  // All that the calling thread and the depot keep goes back. `visit` must not be `again`.
  void trim(const Visit& visit) {
    for (unsigned c = 1; c < kClasses; ++c) {
      void* blocks[Depot::kMost];
      while (const unsigned n = depot_.get(c, blocks)) spans_.free(c, blocks, n);  // bound: what lies there
      if (visit.thread == nullptr) continue;
      Thread& thread = *visit.thread;
      spans_.free(c, thread.floor[c], static_cast<unsigned>(thread.top[c] - thread.floor[c]));
      thread.top[c] = thread.floor[c];
    }
  }

  // That have arrays.
  std::size_t threads() const { return threads_.load(std::memory_order_relaxed); }
  // Bytes of a thread's budget that do not depend on what is in use; kBase at first.
  void set_base(std::size_t bytes) { base_.store(bytes, std::memory_order_relaxed); }

  // Of the blocks that threads and the depot keep. Exact while they do nothing. O(threads x classes).
  std::size_t free_bytes() {
    std::size_t bytes = depot_.bytes();
    all_.for_each([&](Thread* thread) {
      if (!thread->open) return;
      for (unsigned c = 1; c < kClasses; ++c) {
        const std::size_t kept = static_cast<std::size_t>(seen(thread->top[c]) - seen(thread->floor[c]));
        bytes += std::min(kept, kMost) * Classes::bytes_of(c);
      }
    });
    return bytes;
  }

 private:
  using Depot = heapyard::Depot<Classes, Pages, Spans::kParts>;
  static_assert(Depot::kMost * 2 == kMost);
  static constexpr unsigned kLooks = 8;
  static constexpr unsigned kPatience = 16;  // slow paths between two looks at a class
  static constexpr std::size_t kLeast = 2;   // blocks that an array keeps when others need the budget
  static constexpr std::size_t kPage = std::size_t{4} << 10;
  // A thread, then its first arrays, then those that grew.
  static constexpr std::size_t kThread =
      (sizeof(Thread) + kClasses * kFirst * sizeof(void*) + kPage - 1) & ~(kPage - 1);

  static void** first_array(Thread& thread, unsigned c) { return reinterpret_cast<void**>(&thread + 1) + c * kFirst; }
  static void** grown_array(Thread& thread, unsigned c) {
    return reinterpret_cast<void**>(reinterpret_cast<char*>(&thread) + kThread) + c * kMost;
  }

  static std::size_t first_capacity(unsigned c) {
    return std::clamp(kFirstBytes / Classes::bytes_of(c), std::size_t{1}, kFirst);
  }
  static std::size_t most_capacity(unsigned c) {
    return std::clamp(kMostBytes / Classes::bytes_of(c), std::size_t{1}, kMost);
  }
  static std::size_t capacity(const Thread& thread, unsigned c) {
    return static_cast<std::size_t>(thread.limit[c] - thread.floor[c]);
  }

  std::size_t budget() const {
    const std::size_t threads = threads_.load(std::memory_order_relaxed);
    return base_.load(std::memory_order_relaxed) + spans_.runs().used_bytes() / kShare / (threads == 0 ? 1 : threads);
  }

  // Makes an array larger, if the budget allows it, at the expense of another.
  void grow(Thread& thread, unsigned c) {
    const std::size_t now = capacity(thread, c), most = most_capacity(c), may = budget();
    if (thread.budgeted > may) return shrink_another(thread, c);  // what is in use became less
    if (now == most) return;
    const std::size_t next = now == 0 ? first_capacity(c) : std::min(now * 2, most);
    const std::size_t more = (next - now) * Classes::bytes_of(c);
    if (thread.budgeted + more > may) {
      shrink_another(thread, c);
      if (thread.budgeted + more > may) return;
    }
    if (next > kFirst && thread.floor[c] == first_array(thread, c)) {
      void** const array = grown_array(thread, c);
      const auto n = static_cast<std::size_t>(thread.top[c] - thread.floor[c]);
      std::memcpy(array, thread.floor[c], n * sizeof(void*));
      thread.floor[c] = array;
      thread.top[c] = array + n;
    }
    thread.limit[c] = thread.floor[c] + next;
    thread.budgeted += more;
  }

  // Now and then another class: where no slow path came by since the last look, the blocks go back to their spans. A
  // few that lie in an array for long keep as many spans from becoming empty.
  void look_around(Thread& thread, unsigned c) {
    thread.busy[c] = true;
    if (++thread.turns % kPatience != 0) [[likely]]
      return;
    thread.watched = thread.watched + 1 < kClasses ? thread.watched + 1 : 1;
    const unsigned other = thread.watched;
    const auto n = static_cast<unsigned>(thread.top[other] - thread.floor[other]);
    if (thread.busy[other] || n <= kLeast) {
      thread.busy[other] = other == c;
      return;
    }
    spans_.free(other, thread.floor[other], n);
    thread.top[other] = thread.floor[other];
  }

  // Of the next few classes the first but this that has more than a little halves, and is emptied to that.
  void shrink_another(Thread& thread, unsigned c) {
    for (unsigned turn = 0; turn < kLooks; ++turn) {
      thread.hand = thread.hand + 1 < kClasses ? thread.hand + 1 : 1;
      const unsigned other = thread.hand;
      const std::size_t now = capacity(thread, other);
      if (other == c || now <= kLeast) continue;
      const std::size_t next = std::max(now / 2, kLeast);
      const auto n = static_cast<std::size_t>(thread.top[other] - thread.floor[other]);
      if (n > next) empty(thread, other, static_cast<unsigned>(n - next));
      thread.limit[other] = thread.floor[other] + next;
      thread.budgeted -= (now - next) * Classes::bytes_of(other);
      return;
    }
  }

  // The n blocks that lie longest in an array go to the depot, or to their spans. n <= Depot::kMost.
  void empty(Thread& thread, unsigned c, unsigned n) {
    void** const floor = thread.floor[c];
    const bool shared = threads_.load(std::memory_order_relaxed) > 1;
    if (!shared || !depot_.put(c, floor, n, spans_.runs().used_bytes() / kShare / spans_.there(), thread.part)) {
      spans_.free(c, floor, n);
      if (depot_.bytes_of_part(thread.part) != 0) {
        thread.hand = thread.hand + 1 < kClasses ? thread.hand + 1 : 1;
        drain(thread.hand, thread.part);
      }
    }
    const auto left = static_cast<std::size_t>(thread.top[c] - floor) - n;
    std::memmove(floor, floor + n, left * sizeof(void*));
    thread.top[c] = floor + left;
  }

  // A batch of the depot, which has too much or is of no use now, goes back to its spans.
  void drain(unsigned c, unsigned part) {
    void* blocks[Depot::kMost];
    if (const unsigned n = depot_.get(c, blocks, part)) spans_.free(c, blocks, n);
  }

  // What another thread writes.
  static void** seen(void** const& written) { return __atomic_load_n(&written, __ATOMIC_RELAXED); }

  Spans& spans_;
  Depot depot_;
  ThreadPlaces places_;
  FrontEnds<Thread> all_;
  std::atomic<std::size_t> threads_{0}, base_{kBase};
};

template <BlockSource Spans, PageSource Pages, class Owner>
constinit typename Magazines<Spans, Pages, Owner>::Thread Magazines<Spans, Pages, Owner>::Thread::nobody{};

}  // namespace heapyard
