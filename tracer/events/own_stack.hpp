// SPDX-License-Identifier: Apache-2.0
// How far up a thread's own stack frame pointers may be followed.
//
// Idea: glibc puts a thread's control block at the top of its stack, so that the thread pointer is where the stack
// ends; of the first thread the dynamic linker knows. What lies between a frame and that end is probed once, page by
// page, as it is needed (readable.hpp). A fiber's stack has something in between that cannot be read.
// (pthread_getattr_np would know, but it allocates under a lock of the thread's own: who comes from there would wait
// for himself, as every thread of a Rust program does.) Cost: O(1), and a system call per page when a stack is deeper
// than ever. Threads: each its own.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "heap/os/pages.hpp"
#include "tracer/events/readable.hpp"

extern "C" void* __libc_stack_end;  // of the dynamic linker

namespace heapyard::tracer {

class OwnStack {
 public:
  // The end of the stack; 0 if not everything from `sp` up to it is known to be readable.
  std::uintptr_t end_above(std::uintptr_t sp) { return sp >= known_ && sp < end_ ? end_ : find(sp); }
  // An address up to which everything from `sp` on can be read, as far as is known: the stack's end if end_above() was
  // asked of it before, else that of its page. O(1).
  std::uintptr_t readable_until(std::uintptr_t sp) const {
    if (sp >= known_ && sp < end_) [[likely]]
      return end_;
    return (sp | (kPageBytes - 1)) + 1;
  }

 private:
  static constexpr std::uintptr_t kPageBytes = 4096;
  static constexpr std::uintptr_t kMost = std::uintptr_t{64} << 20;  // probed at once

  [[gnu::noinline, gnu::cold]] std::uintptr_t find(std::uintptr_t sp) {
    const os::KeepErrno keep;
    if (end_ == 0) known_ = end_ = top();
    if (sp >= end_ || known_ - sp > kMost) return 0;
    while (known_ > sp) {
      const std::uintptr_t page = (known_ - 1) & ~(kPageBytes - 1);
      if (!readable(page)) return 0;
      known_ = page;
    }
    return end_;
  }

  static std::uintptr_t top() {
    return reinterpret_cast<std::uintptr_t>(syscall(SYS_gettid) == getpid() ? __libc_stack_end
                                                                            : __builtin_thread_pointer());
  }

  std::uintptr_t known_ = 0, end_ = 0;  // [known_, end_) can be read
};

}  // namespace heapyard::tracer
