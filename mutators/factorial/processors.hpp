// SPDX-License-Identifier: Apache-2.0
// Which processors a program runs on: as many as asked for, on cores of their own as long as there are such.
//
// Two hardware threads of one core are not two processors; the second one of a core is taken only when no core is left.
// System calls and one small file per processor; no heap. O(processors).
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>

#include "base/fatal.hpp"
#include "base/text.hpp"

namespace heapyard::factorial {

struct Processors {
  std::int64_t count, cores;
};

// The lowest number of the processors that share a core with this one; itself where the kernel does not say.
inline int core_of(int processor) {
  Text path;
  path << "/sys/devices/system/cpu/cpu" << processor << "/topology/thread_siblings_list" << '\0';
  const int file = open(path.view().data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return processor;
  char text[64];
  const ssize_t length = read(file, text, sizeof text);
  close(file);
  int first = 0;
  ssize_t digits = 0;
  for (; digits < length && text[digits] >= '0' && text[digits] <= '9'; ++digits)
    first = 10 * first + text[digits] - '0';
  return digits > 0 && first < CPU_SETSIZE ? first : processor;
}

// Restricts the calling thread, and all that it starts, to `wanted` of the processors it may use; 0: to all of these.
// Exit 2 when there are not so many.
inline Processors use_processors(std::int64_t wanted) {
  cpu_set_t allowed, chosen, cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fatal(kExitMachine, "cannot ask for processors");
  const std::int64_t most = CPU_COUNT(&allowed);
  if (wanted > most)
    fatal(kExitUsage, "option --processors (-p) asks for ", wanted, " processors, but the program may use ", most);
  if (wanted == 0) wanted = most;
  CPU_ZERO(&chosen);
  CPU_ZERO(&cores);
  for (const bool any : {false, true}) {
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&chosen) < wanted; ++i) {
      if (!CPU_ISSET(i, &allowed) || (!any && CPU_ISSET(core_of(i), &cores))) continue;
      CPU_SET(i, &chosen);
      CPU_SET(core_of(i), &cores);
    }
  }
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0) fatal(kExitMachine, "cannot choose processors");
  return {wanted, CPU_COUNT(&cores)};
}

}  // namespace heapyard::factorial
