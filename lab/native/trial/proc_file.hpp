// SPDX-License-Identifier: Apache-2.0
// Small files of the kernel, read whole.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace heapyard::trial {

// The file at `path` into `text` (null-terminated, cut at `size`); 0 when it cannot be read, with errno set.
std::size_t read_whole(const char* path, char* text, std::size_t size);

// /proc/<pid>/<name>; 0 when the process is gone.
std::size_t read_proc(pid_t pid, const char* name, char* text, std::size_t size);

}  // namespace heapyard::trial
