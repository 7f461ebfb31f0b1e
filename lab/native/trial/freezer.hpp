// SPDX-License-Identifier: Apache-2.0
// Stops every process of a trial and lets them continue, so that several trials can take turns on one machine.
//
// In a control group of version 2 the kernel does it, and no process can tell. Elsewhere signals do it: SIGSTOP to each
// process until a look finds no new one and all have stopped, then SIGCONT to those. A process that had stopped by
// itself stays stopped. Signals change two things for a program: a few system calls that wait end with EINTR
// (signal(7)), and a parent that asks for stopped children (a shell with job control) hears of them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace heapyard::trial {

class Freezer {
 public:
  // `group`: folder of the control group that holds the trial, or null.
  explicit Freezer(const char* group);

  // All processes below this one stand still on return, but those in the middle of a system call that cannot be
  // interrupted, which stop before they run again. False: one may not be stopped (another user's), and nothing is.
  // O(threads + processes) small reads, twice at least; one write and one or more reads for a group.
  bool freeze();
  void thaw();

 private:
  bool freeze_group();
  bool freeze_by_signals();

  int control_ = -1, events_ = -1;  // the group's files
  bool frozen_ = false;
  std::vector<pid_t> pids_, stopped_;
};

}  // namespace heapyard::trial
