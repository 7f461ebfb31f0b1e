// SPDX-License-Identifier: Apache-2.0
#include "stepping.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mapping.hpp"

namespace heapyard::check {

void begin_counting(Steps& steps) {
  // The parent steps from here on; what is left of this function is counted and taken off again.
  const_cast<volatile bool&>(steps.counting) = true;
#if defined(__x86_64__)
  asm volatile("int3" ::: "memory");
#endif
}

void end_counting(Steps& steps) {
  asm volatile("" ::: "memory");
  const_cast<volatile bool&>(steps.counting) = false;
}

bool count_steps(void (*workload)(Steps& steps, std::size_t argument), std::size_t argument, std::uint64_t budget,
                 Steps& result) {
  void* const memory = map_shared(sizeof(Steps));
  if (memory == nullptr) return false;
  auto& shared = *static_cast<Steps*>(memory);
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(9);
    raise(SIGSTOP);
    workload(shared, argument);
    _exit(0);
  }
  const volatile bool& counting = shared.counting;
  int status = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    // A signal that is not ours goes on to the child, which it may end.
    const int signal = WSTOPSIG(status);
    const bool ours = signal == SIGTRAP || signal == SIGSTOP;
    if (signal == SIGTRAP && counting && shared.total < budget) {
      std::uint64_t count = 0;
      while (counting && shared.total + count < budget) {
        if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0 || waitpid(child, &status, 0) != child ||
            !WIFSTOPPED(status))
          break;
        ++count;
      }
      if (!WIFSTOPPED(status)) break;
      shared.cut |= counting && count >= shared.most;
      if (count > shared.most) {
        shared.most = count;
        shared.most_call = shared.calls;
      }
      shared.total += count;
      ++shared.calls;
    }
    if (ptrace(PTRACE_CONT, child, nullptr, ours ? 0 : signal) != 0) break;
  }
  result = shared;
  munmap(memory, sizeof(Steps));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace heapyard::check
