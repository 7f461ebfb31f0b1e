// SPDX-License-Identifier: Apache-2.0
// All processes below this one, found through the kernel's own lists of children. Orphans stay below: we are their
// subreaper.
#pragma once

#include <sys/types.h>

#include <vector>

namespace heapyard::trial {

// Appends every descendant of `root` (not root itself), parents before children. O(threads + processes) small reads; a
// process that vanishes meanwhile is simply not there.
void descendants(pid_t root, std::vector<pid_t>& found);

// Signals every descendant of this process.
void signal_descendants(int signal);

}  // namespace heapyard::trial
