// SPDX-License-Identifier: Apache-2.0
// What becomes of an interrupted system call, beside what the kernel makes of it.
#include "tracer/injector/interrupted_call.hpp"

#include <gtest/gtest.h>

namespace heapyard::injector {
namespace {

user_regs_struct after_call(long call, long result) {
  user_regs_struct registers{};
  registers.rip = 0x401002;
  registers.orig_rax = static_cast<unsigned long>(call);
  registers.rax = static_cast<unsigned long>(result);
  return registers;
}

TEST(InterruptedCall, RestartsAsTheKernelWould) {
  for (const long restart : {kRestartAlways, kRestartNoInterrupt, kRestartNoHandler}) {
    const auto then = as_in_user_mode(after_call(SYS_read, restart));
    EXPECT_EQ(then.rip, 0x401000u);
    EXPECT_EQ(static_cast<long>(then.rax), SYS_read);
    EXPECT_EQ(static_cast<long>(then.orig_rax), -1);
  }
  const auto then = as_in_user_mode(after_call(SYS_nanosleep, kRestartBlock));
  EXPECT_EQ(then.rip, 0x401000u);
  EXPECT_EQ(static_cast<long>(then.rax), SYS_restart_syscall);
}

TEST(InterruptedCall, WhatHasReturnedStays) {
  for (const long result : {0l, 17l, -1l * EINTR, -1l * EAGAIN, -4095l}) {
    const auto then = as_in_user_mode(after_call(SYS_futex, result));
    EXPECT_EQ(then.rip, 0x401002u);
    EXPECT_EQ(static_cast<long>(then.rax), result);
  }
}

// A value of rax that looks like the kernel's number, in a thread that is in no call, is the program's own.
TEST(InterruptedCall, NoCallNoRestart) {
  for (const long value : {kRestartAlways, kRestartNoInterrupt, kRestartNoHandler, kRestartBlock}) {
    const auto then = as_in_user_mode(after_call(-1, value));
    EXPECT_EQ(then.rip, 0x401002u);
    EXPECT_EQ(static_cast<long>(then.rax), value);
  }
  EXPECT_FALSE(failed_by_stop(after_call(-1, -EINTR)));
}

TEST(InterruptedCall, OnlySomeReturnEintr) {
  EXPECT_TRUE(failed_by_stop(after_call(SYS_epoll_wait, -EINTR)));
  EXPECT_FALSE(failed_by_stop(after_call(SYS_epoll_wait, -EAGAIN)));
  EXPECT_FALSE(failed_by_stop(after_call(SYS_rt_sigsuspend, -EINTR)));  // returns it because of a signal only
  EXPECT_FALSE(failed_by_stop(after_call(SYS_close, -EINTR)));          // has closed all the same
  const auto again = calling_again(after_call(SYS_epoll_wait, -EINTR));
  EXPECT_EQ(again.rip, 0x401000u);
  EXPECT_EQ(static_cast<long>(again.rax), SYS_epoll_wait);
  EXPECT_EQ(static_cast<long>(again.orig_rax), -1);
}

}  // namespace
}  // namespace heapyard::injector
