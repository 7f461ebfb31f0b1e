// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/tracee.hpp"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>

namespace heapyard::injector {
namespace {

constexpr std::size_t kMostState = 1 << 20;  // bytes of a register set

Stop kind_of(int status) {
  if (!WIFSTOPPED(status)) return Stop::kGone;
  const int signal = WSTOPSIG(status);
  if (status >> 16 == PTRACE_EVENT_STOP)
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU ? Stop::kGroup
                                                                                            : Stop::kAsked;
  return signal == (SIGTRAP | 0x80) ? Stop::kCall : Stop::kSignal;
}

}  // namespace

std::optional<Tracee> Tracee::seize(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) != 0) return {};
  return Tracee(thread);
}

bool Tracee::interrupt() const { return ptrace(PTRACE_INTERRUPT, thread_, 0, 0) == 0; }

Stop Tracee::wait(Clock::time_point until) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  for (;;) {
    int status;
    const pid_t found = waitpid(thread_, &status, __WALL | WNOHANG);
    if (found < 0 && errno != EINTR) return Stop::kGone;
    if (found == thread_) {
      const Stop stop = kind_of(status);
      signal_ = stop == Stop::kSignal ? WSTOPSIG(status) : 0;
      return stop;
    }
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()).count();
    if (left <= 0) return Stop::kLate;
    const timespec at_most{left / 1'000'000'000, left % 1'000'000'000};
    sigtimedwait(&child, nullptr, &at_most);
  }
}

bool Tracee::has_faulted() const {
  siginfo_t info;
  return ptrace(PTRACE_GETSIGINFO, thread_, 0, &info) == 0 && info.si_code > 0;
}

bool Tracee::go_on(int signal) const { return ptrace(PTRACE_CONT, thread_, 0, signal) == 0; }
bool Tracee::to_next_call(int signal) const { return ptrace(PTRACE_SYSCALL, thread_, 0, signal) == 0; }
bool Tracee::let_go() const { return ptrace(PTRACE_DETACH, thread_, 0, 0) == 0; }

bool Tracee::registers(user_regs_struct& to) const { return ptrace(PTRACE_GETREGS, thread_, 0, &to) == 0; }
bool Tracee::set_registers(const user_regs_struct& to) const { return ptrace(PTRACE_SETREGS, thread_, 0, &to) == 0; }

std::optional<std::uint64_t> Tracee::blocked_signals() const {
  std::uint64_t mask;
  if (ptrace(PTRACE_GETSIGMASK, thread_, sizeof mask, &mask) != 0) return {};
  return mask;
}

bool Tracee::set_blocked_signals(std::uint64_t mask) const {
  return ptrace(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask) == 0;
}

std::vector<unsigned char> Tracee::register_set(int type) const {
  std::vector<unsigned char> content(4096);
  for (;;) {
    iovec all{content.data(), content.size()};
    if (ptrace(PTRACE_GETREGSET, thread_, type, &all) != 0) return {};
    if (all.iov_len < content.size() || content.size() >= kMostState) {
      content.resize(all.iov_len);
      return content;
    }
    content.resize(content.size() * 2);
  }
}

bool Tracee::set_register_set(int type, const std::vector<unsigned char>& content) const {
  iovec all{const_cast<unsigned char*>(content.data()), content.size()};
  return ptrace(PTRACE_SETREGSET, thread_, type, &all) == 0;
}

}  // namespace heapyard::injector
