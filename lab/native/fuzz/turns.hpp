// SPDX-License-Identifier: Apache-2.0
// Whose turn it is, when threads go one at a time.
//
// Idea: then a sequence gives the same each time, threads that free each other's blocks included. All threads know the
// order beforehand. Threads: any. Cost: a switch of threads at each change of turns.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace heapyard::fuzz {

class Turns {
 public:
  void wait_for(std::uint64_t number) const {
    while (next_.load(std::memory_order_acquire) != number) sched_yield();
  }
  void done(std::uint64_t number) { next_.store(number + 1, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace heapyard::fuzz
