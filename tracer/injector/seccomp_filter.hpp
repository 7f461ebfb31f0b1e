// SPDX-License-Identifier: Apache-2.0
// What a thread's seccomp filters say about a system call. A filter may end the process for a call that it does not
// expect, so every call that loading the tracer makes is put to them before (classic BPF; Linux:
// Documentation/userspace-api/seccomp_filter.rst).
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heapyard::injector {

struct SystemCall {
  int number;
  std::array<std::uint64_t, 6> args;
  const char* name;
};

// What one filter returns for the call: SECCOMP_RET_*. A program that is not well formed: SECCOMP_RET_KILL_PROCESS.
// O(instructions).
std::uint32_t verdict_of(std::span<const sock_filter> filter, const SystemCall& call);

// The calls of dlopen, of the tracer's beginning, and of its recording.
std::span<const SystemCall> calls_of_attaching();

// Why loading the tracer might be forbidden to the thread, which this process holds, or empty.
std::string why_seccomp_forbids(pid_t process, pid_t thread);

}  // namespace heapyard::injector
