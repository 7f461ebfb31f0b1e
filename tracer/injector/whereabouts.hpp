// SPDX-License-Identifier: Apache-2.0
// Whether a thread that has just been stopped may be made to call something, where it stands.
#pragma once

#include <sys/user.h>

#include <string>

#include "tracer/injector/target_process.hpp"
#include "tracer/injector/tracee.hpp"

namespace heapyard::injector {

struct Whereabouts {
  bool fit = false;
  bool final = false;  // looking again will not help
  std::string why;     // it is not fit
};

// Whether a signal waits to be delivered to the thread. O(1).
bool signal_is_pending(pid_t process, pid_t thread);

// Also clears what killed injectors have left. O(frames).
Whereabouts whereabouts(TargetProcess& process, const Tracee& tracee, const user_regs_struct& registers);

}  // namespace heapyard::injector
