// SPDX-License-Identifier: Apache-2.0
// One sentence on standard error, if HEAPYARD_VERBOSE=1 asks for it.
//
// Cost: a search of the environment; a system call if asked. Allocates nothing; for use before main.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "heap/os/pages.hpp"

namespace heapyard::os {

inline bool verbose() {
  const char* value = environ == nullptr ? nullptr : secure_getenv("HEAPYARD_VERBOSE");
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

// "heapyard: <before><mebibytes> MiB<after>".
inline void notice(const char* before, std::size_t mebibytes, const char* after) {
  const KeepErrno keep;
  char line[256];
  std::size_t length = 0;
  const auto add = [&](const char* text) {
    while (*text != '\0' && length < sizeof line) line[length++] = *text++;
  };
  char digits[24];
  char* digit = digits + sizeof digits;
  *--digit = '\0';
  do {
    *--digit = static_cast<char>('0' + mebibytes % 10);
    mebibytes /= 10;
  } while (mebibytes != 0);
  add("heapyard: ");
  add(before);
  add(digit);
  add(" MiB");
  add(after);
  add("\n");
  syscall(SYS_write, STDERR_FILENO, line, length);  // write() may throw, says its declaration: for cancellation
}

}  // namespace heapyard::os
