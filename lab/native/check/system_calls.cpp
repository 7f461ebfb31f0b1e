// SPDX-License-Identifier: Apache-2.0
#include "system_calls.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>

namespace heapyard::check {
namespace {

bool stop_at_memory_calls() {
  constexpr unsigned kNumbers[] = {__NR_mmap, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise, __NR_brk};
  constexpr std::size_t kCount = std::size(kNumbers);
  sock_filter program[kCount + 3];
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t i = 0; i < kCount; ++i)
    program[1 + i] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kNumbers[i], static_cast<unsigned char>(kCount - i), 0);
  program[kCount + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[kCount + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

bool count_memory_calls(void (*workload)(std::size_t argument), std::size_t argument, std::uint64_t& calls) {
  calls = 0;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(9);
    raise(SIGSTOP);
    if (!stop_at_memory_calls()) _exit(9);
    workload(argument);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) {
      if (thread == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
      continue;
    }
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_SECCOMP) ++calls;
    // A new thread begins with a SIGSTOP that is ours; any other signal is the program's.
    const bool ours = event != 0 || signal == SIGSTOP || signal == SIGTRAP;
    ptrace(PTRACE_CONT, thread, nullptr, ours ? 0 : signal);
  }
  return false;
}

}  // namespace heapyard::check
