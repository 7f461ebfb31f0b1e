// SPDX-License-Identifier: Apache-2.0
// A child of a case, and what its end means.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include "support.hpp"

namespace heapyard::check {

// Waits for a child at most so long; kills it then. -1: it hung.
inline int status_of(pid_t child, long ms) {
  for (long waited = 0; waited < ms; waited += 5) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    sleep_ms(5);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

inline void tell(Report& report, const char* who, int status) {
  if (status == -1)
    report.fail("%s hung", who);
  else if (WIFSIGNALED(status))
    report.fail("%s died of signal %d (%s)", who, WTERMSIG(status), strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    report.fail("%s found its heap damaged", who);
}

}  // namespace heapyard::check
