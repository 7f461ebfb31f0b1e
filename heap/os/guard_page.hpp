// SPDX-License-Identifier: Apache-2.0
// Pages that end a program that touches them.
//
// Idea: since version 6.13 Linux has such pages within a mapping. Elsewhere the page loses its rights, which makes two
// mappings more. Cost: a system call or two each. Threads: any. Errors: false; then nothing has changed. errno is kept.
#pragma once

#include <sys/mman.h>

#include "heap/os/pages.hpp"

namespace heapyard::os {

inline constexpr int kGuardInstall = 102, kGuardRemove = 103;  // for madvise; the C library's headers may not know them

// What it held is gone.
inline bool guard_page(void* page) {
  const KeepErrno keep;
  return madvise(page, page_bytes(), kGuardInstall) == 0 || mprotect(page, page_bytes(), PROT_NONE) == 0;
}

// Zero from now on. It may fail where it was made without rights, and a limit on data is met.
inline bool unguard_page(void* page) {
  const KeepErrno keep;
  const bool removed = madvise(page, page_bytes(), kGuardRemove) == 0;
  return mprotect(page, page_bytes(), PROT_READ | PROT_WRITE) == 0 || removed;
}

}  // namespace heapyard::os
