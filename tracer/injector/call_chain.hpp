// SPDX-License-Identifier: Apache-2.0
// The call chain of a stopped thread of another process, innermost frame first, by the unwind tables of its objects
// (elfutils, libdwfl). O(frames).
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tracer/injector/process_memory.hpp"

struct Dwfl;

namespace heapyard::injector {

struct CallChain {
  std::vector<std::uint64_t> frames;  // addresses within the calling instructions
  bool whole = false;                 // it reaches the thread's first function
};

class Unwinder {
 public:
  // Reads which objects the process has loaded; what it loads later is not known. `memory` outlives this.
  Unwinder(pid_t pid, const ProcessMemory& memory);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  CallChain chain(pid_t thread, const user_regs_struct& registers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapyard::injector
