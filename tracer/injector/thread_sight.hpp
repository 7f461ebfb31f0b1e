// SPDX-License-Identifier: Apache-2.0
// What /proc shows of a process's threads without stopping them, and how well each is suited to be stopped.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

namespace heapyard::injector {

// In the order in which threads are looked at.
enum class Suited {
  kRestarts,      // waits in a call that the kernel restarts
  kRuns,          // is in no call that lasts
  kWaits,         // waits in a call that returns EINTR after a stop, without a time limit
  kWaitsLimited,  // the same with one, which begins anew
  kNot,           // stopped, traced, ended, or in a call that a stop would cut short
};

struct ThreadSight {
  pid_t thread = 0;
  char state = '?';                     // as in /proc/PID/stat
  long call = -1;                       // the system call it is in; -1: none
  std::array<std::uint64_t, 6> args{};  // of that call
  std::uint64_t switches = 0;           // how often it has waited so far

  Suited suited() const;
};

ThreadSight sight_of(pid_t process, pid_t thread);
std::vector<pid_t> threads_of(pid_t process);

// All threads that may be stopped, the best first. O(threads).
std::vector<ThreadSight> suited_threads(pid_t process);

}  // namespace heapyard::injector
