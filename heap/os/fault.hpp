// SPDX-License-Identifier: Apache-2.0
// The end of a program that was found to misuse its heap: one sentence on standard error, then abort().
//
// Cost: a system call. Allocates nothing; any thread may call it, with locks held too.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace heapyard::os {

// "heapyard: <what> <address>: <why>", where `why` is a format of two numbers.
[[noreturn, gnu::cold, gnu::noinline]] inline void fault(const char* what, const void* block, const char* why,
                                                         std::size_t first = 0, std::size_t second = 0) {
  char line[256], reason[160];
  std::snprintf(reason, sizeof reason, why, first, second);
  const int length = std::snprintf(line, sizeof line, "heapyard: %s(%p): %s\n", what, block, reason);
  syscall(SYS_write, STDERR_FILENO, line, length);
  std::abort();
}

}  // namespace heapyard::os
