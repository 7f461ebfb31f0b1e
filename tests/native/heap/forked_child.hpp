// SPDX-License-Identifier: Apache-2.0
// How the child of a fork ends in a test.
#pragma once

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heapyard::test {

// At once. Not by _exit(): before a call that does not return AddressSanitizer asks for the thread's stack, which takes
// a lock of its own, and another thread may have held it when the child was forked. Who calls this in the middle of a
// function has it return afterwards, as compilers believe that it does.
inline void end_child(bool well) { syscall(SYS_exit_group, well ? 0 : 1); }

inline bool ended_well(pid_t child) {
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace heapyard::test
