// SPDX-License-Identifier: Apache-2.0
// One thread of another process, held by ptrace (PTRACE_SEIZE: no signal is sent, nothing is stopped for good).
//
// If this process ends, however it ends, the kernel lets the thread go as it stands. Errors: a call that fails with
// ESRCH means that the thread has ended, or that another thread has exec'ed a new program.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace heapyard::injector {

using Clock = std::chrono::steady_clock;

enum class Stop {
  kLate,    // it did not stop in time
  kAsked,   // because it was interrupted
  kCall,    // at the entry or the exit of a system call
  kSignal,  // a signal is about to be delivered
  kGroup,   // the whole process is stopped, by SIGSTOP or a terminal
  kGone,    // it has ended
};

// Waits for stops of this process's tracees. SIGCHLD must be blocked: it ends the wait.
class Tracee {
 public:
  // Starts to hold the thread; errno says why it cannot.
  static std::optional<Tracee> seize(pid_t thread);

  pid_t thread() const { return thread_; }
  bool interrupt() const;
  Stop wait(Clock::time_point until);     // O(1) wakings
  int signal() const { return signal_; }  // of the last kSignal
  bool has_faulted() const;               // whether its own instructions raised that, and not some process

  bool go_on(int signal = 0) const;         // runs
  bool to_next_call(int signal = 0) const;  // runs to the next entry or exit of a system call
  bool let_go() const;                      // from a stop

  bool registers(user_regs_struct& to) const;
  bool set_registers(const user_regs_struct& to) const;
  std::optional<std::uint64_t> blocked_signals()
      const;  // those it has when no system call has changed them for a while
  bool set_blocked_signals(std::uint64_t mask) const;
  // A register set (NT_*), as long as the kernel has it; empty if it has none.
  std::vector<unsigned char> register_set(int type) const;
  bool set_register_set(int type, const std::vector<unsigned char>& content) const;

 private:
  explicit Tracee(pid_t thread) : thread_(thread) {}
  pid_t thread_;
  int signal_ = 0;
};

}  // namespace heapyard::injector
