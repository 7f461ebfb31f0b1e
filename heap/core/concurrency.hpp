// Which atomics and locks concurrent code is made of: a policy, so that the same code also runs under a test that
// explores its schedules (tests/native/heap/explorer.hpp).
#pragma once

#include <sys/single_threaded.h>

#include <atomic>

#include "heap/os/lock.hpp"

namespace heapyard::core {

// Atomic<T> offers what std::atomic<T> offers; Lock what os::Lock offers.
struct Concurrency {
  template <class T>
  using Atomic = std::atomic<T>;
  using Lock = os::Lock;
  // Whether the process has one thread, for now.
  static bool alone() { return __libc_single_threaded; }
};

}  // namespace heapyard::core
