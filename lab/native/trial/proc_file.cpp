// SPDX-License-Identifier: Apache-2.0
#include "proc_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace heapyard::trial {

std::size_t read_whole(const char* path, char* text, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::size_t length = 0;
  for (ssize_t got; length + 1 < size && (got = read(file, text + length, size - 1 - length)) > 0;)
    length += static_cast<std::size_t>(got);
  close(file);
  text[length] = 0;
  return length;
}

std::size_t read_proc(pid_t pid, const char* name, char* text, std::size_t size) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return read_whole(path, text, size);
}

}  // namespace heapyard::trial
