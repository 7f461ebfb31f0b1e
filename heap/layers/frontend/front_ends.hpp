// SPDX-License-Identifier: Apache-2.0
// Every front end that was ever made: those in use by threads, and those that wait for a thread.
//
// Idea: front ends are never freed, only reused, so a walk over all of them needs no lock. The child of a fork finds
// here what threads held that it does not have; usage() finds what is in caches. Cost: O(1) apart from retries;
// for_each O(front ends), as many as the most threads there ever were at once. Threads: any, inside the heap.
#pragma once

#include <atomic>

#include "heap/core/tagged_stack.hpp"
#include "heap/layers/concepts.hpp"

namespace heapyard {

// For a front end whose fast paths take no lock: a fork finds nothing of it held.
struct NothingHeld {
  bool fork_prepare(bool) { return true; }
  void fork_parent() {}
  void fork_child(unsigned) {}
};

// Thread: a front end, with `std::atomic<Thread*> link` and `Thread* before`, for us.
template <Linked Thread>
class FrontEnds {
 public:
  constexpr FrontEnds() = default;

  // One that waits for a thread, or null: then make one and add() it.
  Thread* take() { return unused_.pop(); }
  void give_back(Thread* thread) { unused_.push(thread); }

  void add(Thread* thread) {
    Thread* made = made_.load(std::memory_order_relaxed);
    do {  // bound: each turn is one that another thread made
      thread->before = made;
    } while (!made_.compare_exchange_weak(made, thread, std::memory_order_release, std::memory_order_relaxed));
  }

  template <class Work>
  void for_each(Work work) {
    Thread* thread = made_.load(std::memory_order_acquire);
    for (; thread != nullptr; thread = thread->before) work(thread);
  }

 private:
  core::TaggedStack<Thread> unused_;
  std::atomic<Thread*> made_{nullptr};  // the newest first
};

}  // namespace heapyard
