// SPDX-License-Identifier: Apache-2.0
// A memory fence whose cost falls on the rare side.
//
// Idea: two sides each write a word and then read the other's. A fence between the two steps keeps both from missing
// the other. The frequent side only holds the compiler back. The rare side has the kernel run a fence on every
// processor where a thread of this process is (membarrier(2), Linux 4.14). Where the kernel has no such call, both
// sides pay for their own fence. Cost: light O(1), no instruction after begin(); heavy one system call, none while the
// process has one thread.
#pragma once

#include <linux/membarrier.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "heap/os/pages.hpp"

namespace heapyard::os {

class AsymmetricFence {
 public:
  // Until then, and where the kernel refuses, light() is a fence of its own.
  static void begin() {
    const KeepErrno keep;
    registered_.store(call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED), std::memory_order_release);
  }

  static void light() {
    if (registered_.load(std::memory_order_relaxed)) [[likely]]
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  static void heavy() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (__libc_single_threaded || !registered_.load(std::memory_order_relaxed)) return;
    const KeepErrno keep;
    if (call(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
    // A child may have to register anew.
    if (call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
    // Forbidden since it was registered, by a sandbox: each side pays from here on, and what a processor has not
    // written yet it writes within nanoseconds.
    registered_.store(false, std::memory_order_seq_cst);
    const timespec millisecond{0, 1'000'000};
    syscall(SYS_nanosleep, &millisecond, nullptr);
  }

 private:
  static bool call(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

  static inline constinit std::atomic<bool> registered_{false};
};

}  // namespace heapyard::os
