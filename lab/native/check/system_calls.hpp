// SPDX-License-Identifier: Apache-2.0
// Counts the system calls by which a heap gets and gives back memory, in all threads of a workload: a filter stops each
// of them for the tracing parent (seccomp), everything else runs at full speed. Needs no privilege.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapyard::check {

// Runs workload(argument) in a child. False if the child did not end well or tracing is not permitted here.
bool count_memory_calls(void (*workload)(std::size_t argument), std::size_t argument, std::uint64_t& calls);

}  // namespace heapyard::check
