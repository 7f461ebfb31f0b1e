// SPDX-License-Identifier: Apache-2.0
// One call in another process: dlopen of a library and a call of one of its functions, in a thread that is stopped.
#pragma once

#include <cstdint>
#include <string>

#include "tracer/injector/target_process.hpp"
#include "tracer/injector/tracee.hpp"

namespace heapyard::injector {

struct Request {
  pid_t pid = 0;
  std::string library, entry, argument;  // entry: of int entry(const char* argument)
};

enum class Ending {
  kCalled,        // `result` is what it returned
  kNotLoaded,     // `text` is the dynamic linker's
  kRefused,       // nothing was changed, as `text` says
  kBusy,          // nothing was changed: no thread was at a place where this can be done
  kNotPermitted,  // nothing was changed: the system does not allow to hold the process
  kFailed,        // everything is as it was, but the call did not come to its end
  kGone,          // the process has ended or runs another program
};

struct Answer {
  Ending ending = Ending::kBusy;
  long result = 0;
  std::string text;
  pid_t thread = 0;               // the one that called
  unsigned looks = 0;             // threads stopped to see where they are
  std::int64_t stopped = 0;       // nanoseconds in which the thread that called did not do its own work
  std::int64_t longest_look = 0;  // nanoseconds
  bool mended = false;            // its extended registers had to be written back
};

// Stands at Stop::kAsked with nothing pending, and was found safe. `natural`: its registers. The thread is let go in
// every case, with the registers, the signal mask and the memory that it had. Fills in `answer`.
void call_in(const TargetProcess& process, Tracee& tracee, const user_regs_struct& natural, const Request& request,
             Answer& answer);

}  // namespace heapyard::injector
