// SPDX-License-Identifier: Apache-2.0
// The first bytes of a small file of the kernel's.
//
// Cost: three system calls. Allocates nothing; no cancellation point, as open() and read() are.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <string_view>

namespace heapyard::os {

// As many as `space` holds; empty if the file cannot be read. errno may change.
template <std::size_t Most>
std::string_view file_text(const char* path, char (&space)[Most]) {
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (file < 0) return {};
  const long got = syscall(SYS_read, file, space, Most);
  syscall(SYS_close, file);
  return {space, got < 0 ? 0 : static_cast<std::size_t>(got)};
}

}  // namespace heapyard::os
