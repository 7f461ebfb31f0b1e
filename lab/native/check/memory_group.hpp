// SPDX-License-Identifier: Apache-2.0
// A control group of this process's own with a limit of memory, of version 2 or 1, below the group it is in.
#pragma once

#include <cstddef>

namespace heapyard::check {

// One at a time.
struct MemoryGroup {
  // False with the reason where none may be made.
  static bool make(std::size_t bytes, char* reason, std::size_t room);
  static void enter();   // in a new process, before it becomes another program
  static double peak();  // bytes
  static void remove();  // its processes have ended
};

}  // namespace heapyard::check
