// SPDX-License-Identifier: Apache-2.0
// What the kernel does with a system call that a stop has interrupted, and what it does not do.
//
// Most calls restart by themselves when the thread goes on: the kernel keeps a number of its own (-512 to -516) in rax
// until then, which must reach the program in no case. Some return EINTR although no signal came; a program alone would
// never have seen that. Those are restarted here. (Linux: include/linux/errno.h; signal(7), "Interruption of system
// calls and library functions by stop signals".)
#pragma once

#include <sys/syscall.h>
#include <sys/user.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace heapyard::injector {

enum Restart : long {
  kRestartAlways = -512,
  kRestartNoInterrupt = -513,
  kRestartNoHandler = -514,
  kRestartBlock = -516
};
constexpr int kBytesOfSyscall = 2;  // of the instruction

// Calls that return EINTR after a stop, having done nothing: to call again is the same as not to have stopped. Only
// their time limit begins anew.
constexpr std::array kReturnsEintr = {
    SYS_epoll_wait,      SYS_epoll_pwait,  SYS_epoll_pwait2,   SYS_semop,     SYS_semtimedop,
    SYS_rt_sigtimedwait, SYS_io_getevents, SYS_io_uring_enter, SYS_fallocate, SYS_read,
    SYS_readv,           SYS_recvfrom,     SYS_recvmsg,        SYS_accept,    SYS_accept4,
    SYS_connect,         SYS_write,        SYS_writev,         SYS_sendto,    SYS_sendmsg,
};

inline bool returns_eintr(long call) {
  for (const long each : kReturnsEintr)
    if (each == call) return true;
  return false;
}

// Whether the thread stands behind a call of that kind that has failed so. The caller knows that no signal is pending.
inline bool failed_by_stop(const user_regs_struct& registers) {
  const long call = static_cast<long>(registers.orig_rax);
  return call >= 0 && static_cast<long>(registers.rax) == -EINTR && returns_eintr(call);
}

// The registers from which the call is made again.
inline user_regs_struct calling_again(user_regs_struct registers) {
  registers.rip -= kBytesOfSyscall;
  registers.rax = registers.orig_rax;
  registers.orig_rax = ~0ul;
  return registers;
}

// What the kernel would make of the registers before it runs the program on, when no signal is delivered.
inline user_regs_struct as_in_user_mode(user_regs_struct registers) {
  if (static_cast<long>(registers.orig_rax) < 0) return registers;
  switch (static_cast<long>(registers.rax)) {
    case kRestartAlways:
    case kRestartNoInterrupt:
    case kRestartNoHandler:
      return calling_again(registers);
    case kRestartBlock:
      registers = calling_again(registers);
      registers.rax = SYS_restart_syscall;
      return registers;
    default:
      registers.orig_rax = ~0ul;
      return registers;
  }
}

}  // namespace heapyard::injector
