// SPDX-License-Identifier: Apache-2.0
// Starting the program: everything between fork and exec, and what went wrong there.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "request.hpp"

namespace heapyard::trial {

struct Launched {
  pid_t pid = -1;
  int ready = -1;    // descriptor the child waits at before it execs; see release()
  int waiting = -1;  // the end of it the child reads, open here until release(): a child that failed is no broken pipe
  int started = -1;  // descriptor that ends (POLLHUP) when exec has taken over, or failed
  int counter = -1;  // descriptor of the instruction counter, -1 where the machine has none
  // Shared with the child until it has become the program.
  struct Handover {
    std::uint64_t exec_ns;  // CLOCK_MONOTONIC just before exec
    std::int32_t error;     // errno of what failed, 0 if exec took over
    const char* what;       // which step failed
  };
  Handover* handover = nullptr;
};

// User-space instructions of the program and its children, 0 where the machine does not count them all the time.
std::uint64_t instructions_of(const Launched& launched);

// Forks; the child execs at release(). The program gets a session of its own, so that a terminal's signals and job
// control stay with the lab. Its instruction counter (user space, inherited by its children) starts with exec. Ends the
// launcher if fork fails.
Launched launch(const Request& request);

// Lets the child become the program. A child that has failed by then has said so in its handover.
void release(Launched& launched);

}  // namespace heapyard::trial
