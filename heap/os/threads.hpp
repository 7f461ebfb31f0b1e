// SPDX-License-Identifier: Apache-2.0
// Threads, forks and processors of this process.
//
// Idea: a pthreads key calls us when a thread ends, whatever started it; it may be armed again afterwards. Cost: O(1).
// Errors: a process without free keys continues, and loses what its threads had cached when they end.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>

namespace heapyard::os {

class ThreadExitHook {
 public:
  constexpr ThreadExitHook() = default;

  // Before the first arm(), by one thread.
  void create(void (*at_exit)(void*)) { created_ = pthread_key_create(&key_, at_exit) == 0; }

  // `at_exit` runs when this thread ends. The C library may allocate here.
  void arm() {
    if (created_) pthread_setspecific(key_, this);
  }

 private:
  pthread_key_t key_ = 0;
  bool created_ = false;
};

// Runs something once per process, though a fork may come while another thread is at it: then the child does it anew.
class OnceAcrossForks {
 public:
  constexpr OnceAcrossForks() = default;

  template <class Work>
  void run(Work work) {
    if (state_.load(std::memory_order_acquire) == kDone) return;
    const int self = getpid();
    for (int seen = kNobody; !state_.compare_exchange_strong(seen, self, std::memory_order_acquire); seen = kNobody) {
      if (seen == kDone) return;
      if (seen == self) {
        sched_yield();  // a thread of this process is at it
      } else if (state_.compare_exchange_strong(seen, self, std::memory_order_acquire)) {
        break;  // whoever was at it is not in this process
      }
    }
    work();
    state_.store(kDone, std::memory_order_release);
  }

 private:
  static constexpr int kNobody = 0, kDone = -1;  // else the process that is at it
  std::atomic<int> state_{kNobody};
};

inline void at_fork(void (*prepare)(), void (*parent)(), void (*child)()) { pthread_atfork(prepare, parent, child); }

// Processors this process may run on; at least 1. Does not allocate.
inline unsigned processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? static_cast<unsigned>(count) : 1;
}

}  // namespace heapyard::os
