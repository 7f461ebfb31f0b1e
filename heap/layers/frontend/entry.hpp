// SPDX-License-Identifier: Apache-2.0
// A thread's way into the heap: it starts, works, may come back while it is inside, ends, and may come again after
// that.
//
// Idea: while a thread is inside, its thread-local pointer does not hold its front end but `nobody`. Code that finds
// `nobody` there (a signal handler, or the C library while we arm the exit hook) belongs to a thread that is inside
// already, has not started, or has ended; `phase` tells which. `nobody` is a front end that is empty and takes nothing,
// so the fast paths need no test of their own.
// Cost: two stores per operation. Threads: all state is thread-local, and only its own thread writes it.
// layers/gate.hpp says whether the heap is open at all.
#pragma once

#include <atomic>
#include <cstdint>

namespace heapyard {

// Thread: the front end of one thread, with `static Thread nobody`. Owner: the heap, for front ends of one type may be
// of several.
template <class Thread, class Owner>
class Entry {
 public:
  enum class Phase : std::uint8_t { fresh, live, inside, ended };

  // What a thread found on a slow path, to be given back by leave().
  struct Visit {
    Thread* thread;  // null: no front end, go to the heap directly
    Phase after;
    bool again;  // inside already, or refused: touch nothing that is locked or cached
  };

  static Thread* take() {
    Thread* thread = current_;
    current_ = &Thread::nobody;
    std::atomic_signal_fence(std::memory_order_acq_rel);  // a handler sees it gone before anything is changed
    return thread;
  }

  static void put(Thread* thread) {
    std::atomic_signal_fence(std::memory_order_acq_rel);
    current_ = thread;
  }

  // After take(), of a thread that has a front end.
  static Visit visit_of(Thread* taken) { return {taken, Phase::live, false}; }

  // After take() gave `nobody`: begins a visit, which is `again` if the thread is inside; else its phase is `after`.
  static Visit begin() {
    const Phase before = phase_;
    if (before == Phase::live || before == Phase::inside) return {nullptr, before, true};
    phase_ = Phase::inside;
    std::atomic_signal_fence(std::memory_order_acq_rel);
    return {nullptr, before, false};
  }

  static void leave(const Visit& visit) {
    if (visit.again) return;
    std::atomic_signal_fence(std::memory_order_acq_rel);
    // Between the two stores a handler finds the thread inside.
    phase_ = visit.after;
    if (visit.thread != nullptr) current_ = visit.thread;
  }

  // Whether this thread is in the middle of something here.
  static bool inside() { return current_ == &Thread::nobody && (phase_ == Phase::live || phase_ == Phase::inside); }

  // From the exit hook, outside of the heap: gives the front end up for good; null if the thread has none.
  static Thread* end() {
    if (phase_ != Phase::live) return nullptr;
    phase_ = Phase::inside;
    return take();
  }
  static void ended() { phase_ = Phase::ended; }

 private:
  static inline constinit thread_local Thread* current_ = &Thread::nobody;
  static inline constinit thread_local Phase phase_ = Phase::fresh;
};

}  // namespace heapyard
