// SPDX-License-Identifier: Apache-2.0
// Whether an address can be read, without a signal if it cannot.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace heapyard::tracer {

// The eight bytes there. A signal mask is "read" from there by a system call that then fails for another reason, which
// tells an address that can be read from one that cannot. Changes errno. One system call.
inline bool readable(std::uintptr_t address) {
  return syscall(SYS_rt_sigprocmask, ~0, address, nullptr, 8) != -1 || errno != EFAULT;
}

}  // namespace heapyard::tracer
