// SPDX-License-Identifier: Apache-2.0
// To sleep until a word in memory changes.
//
// Cost: one system call each. Threads: any, of this process. Both leave errno alone; neither is a cancellation point.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "heap/os/pages.hpp"

namespace heapyard::os {

// Sleeps while the word has this value, `milliseconds` at most if not 0. May return at any time.
inline void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, unsigned milliseconds = 0) {
  const KeepErrno keep;
  const timespec most{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, milliseconds == 0 ? nullptr : &most, nullptr, 0);
}

inline void wake(const std::atomic<std::uint32_t>& word, int threads = INT_MAX) {
  const KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace heapyard::os
