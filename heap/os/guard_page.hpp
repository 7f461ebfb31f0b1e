// SPDX-License-Identifier: Apache-2.0
// Pages that end a program that touches them.
//
// Idea: since version 6.13 Linux has such pages within a mapping. Elsewhere the page loses its rights, which makes two
// mappings more. Cost: a system call or two each. Threads: any. Errors: false; then nothing has changed. errno is kept.
#pragma once

#include <sys/mman.h>

#include <atomic>

#include "heap/os/pages.hpp"

namespace heapyard::os {

inline constexpr int kGuardInstall = 102, kGuardRemove = 103;  // for madvise; the C library's headers may not know them

// Whether any page is guarded within a mapping, which only kGuardRemove undoes.
inline constinit std::atomic<bool> guards_within{false};

// What it held is gone.
inline bool guard_page(void* page) {
  const KeepErrno keep;
  if (madvise(page, page_bytes(), kGuardInstall) == 0) {
    guards_within.store(true, std::memory_order_relaxed);
    return true;
  }
  return mprotect(page, page_bytes(), PROT_NONE) == 0;
}

// Zero from now on. It may fail where it was made without rights, and a limit on data is met; or where a sandbox has
// forbidden since then to undo what was allowed.
inline bool unguard_page(void* page) {
  const KeepErrno keep;
  const bool removed = madvise(page, page_bytes(), kGuardRemove) == 0;
  const bool has_rights = mprotect(page, page_bytes(), PROT_READ | PROT_WRITE) == 0;
  return has_rights && (removed || !guards_within.load(std::memory_order_relaxed));
}

}  // namespace heapyard::os
