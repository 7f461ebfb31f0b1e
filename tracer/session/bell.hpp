// SPDX-License-Identifier: Apache-2.0
// Wakes the collector before a ring is full.
//
// Idea: the collector sleeps on a word of each program's shared memory, and a thread that finds its ring half full
// wakes it; so the collector wakes as seldom as it can, and a program that allocates fast need not wait. Cost: one load
// and, if the collector sleeps, one system call per half ring. Whoever misses the other's word is heard when the ring
// is full, or by the collector's own clock.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "heap/os/pages.hpp"

namespace heapyard::tracer {

class Bell {
 public:
  // By the collector, before it looks at the rings.
  void expect() { silent_.store(1); }

  // By a thread of the program.
  void ring() {
    if (silent_.load() == 0 || silent_.exchange(0) == 0) return;
    const os::KeepErrno keep;
    syscall(SYS_futex, &silent_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  // What the collector sleeps on: as long as it holds 1.
  std::uint32_t* word() { return reinterpret_cast<std::uint32_t*>(&silent_); }

 private:
  std::atomic<std::uint32_t> silent_{0};
};
static_assert(sizeof(Bell) == sizeof(std::uint32_t));

}  // namespace heapyard::tracer
