// SPDX-License-Identifier: Apache-2.0
// Records what the program maps and unmaps by itself: memory that is nobody's block.
//
// Idea: whoever calls mmap through the dynamic linker is seen; the C library's own calls are not, so its heap is not
// mistaken for the program's. What the library of malloc maps is left out by its caller. Cost: O(frames), beside a
// system call. Threads, signals: as recording.hpp.
#pragma once

namespace heapyard::tracer {

// Finds the next mmap and its kin, and where the library of malloc lies. Once; before, system calls serve.
void find_next_mappings();

// The collector of the session, if there is one, sees from now on what the tracer itself has mapped.
void tell_own_memory();

}  // namespace heapyard::tracer
