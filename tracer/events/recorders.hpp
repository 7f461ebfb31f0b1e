// SPDX-License-Identifier: Apache-2.0
// The threads that have recorded something, by the number of their ring, in a process that was attached to.
//
// Idea: a process that is attached to again begins with all of them anew. Cost: O(1) to enter, else O(rings). Threads:
// any; it is locked, for a thread's memory goes when it ends. Signals: none of them may come here, as they would wait.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "tracer/events/thread_state.hpp"
#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class Recorders {
 public:
  void enter(std::uint32_t ring, ThreadState* state) { states_[ring].store(state); }
  void leave(const ThreadState* state) {
    lock();
    for (std::atomic<ThreadState*>& entry : states_) {  // its number may be of an earlier session
      ThreadState* expected = const_cast<ThreadState*>(state);
      entry.compare_exchange_strong(expected, nullptr);
    }
    unlock();
  }
  // While nobody comes by the functions of malloc here.
  void begin_anew() {
    lock();
    for (std::atomic<ThreadState*>& entry : states_) {
      if (ThreadState* state = entry.exchange(nullptr)) __atomic_store_n(&state->to_sample, 0, __ATOMIC_RELAXED);
    }
    unlock();
  }
  void forget() {  // in a forked child, which has none of them
    for (std::atomic<ThreadState*>& entry : states_) entry.store(nullptr, std::memory_order_relaxed);
    unlock();
  }

 private:
  void unlock() { locked_.store(false, std::memory_order_release); }
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  std::atomic<ThreadState*> states_[kRings] = {};
  std::atomic<bool> locked_{false};
};

inline constinit Recorders recorders;  // all zero at first: what of it is never touched is no memory

}  // namespace heapyard::tracer
