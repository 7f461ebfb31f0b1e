// SPDX-License-Identifier: Apache-2.0
// What one launch is asked to do; filled from the command line, read by everything else.
#pragma once

#include <sched.h>

#include <cstdint>

namespace heapyard::trial {

struct Request {
  char** command = nullptr;     // null-terminated; the environment is passed on as it is
  const char* argv0 = nullptr;  // name the program is started under, its path if null
  const char* cwd = nullptr;
  const char* input = "/dev/null";
  const char* output = "/dev/null";
  const char* errors = "/dev/null";
  const char* json = "-";
  const char* library = nullptr;  // must be found mapped in every process that lives long enough to be looked at
  const char* group = nullptr;    // folder of the control group the program joins; it exists, and is empty
  double timeout = 0;             // seconds; 0: none
  double grace = 2;               // seconds between SIGTERM and SIGKILL
  std::int64_t parent = 0;        // process that must be our parent, 0: any
  double interval = 0.01;         // seconds between memory samples
  bool has_cpus = false;
  cpu_set_t cpus;
  bool no_huge_pages = false;
  int turns = -1;  // socket through which the program's slices are given (turns.hpp); -1: it runs as it likes
  bool sample = true;
};

}  // namespace heapyard::trial
