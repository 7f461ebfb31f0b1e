// SPDX-License-Identifier: Apache-2.0
// For a process that runs already: its calls of malloc and the like are led to this library's.
//
// Idea: a library that is loaded late comes too late for the dynamic linker's search, so the words through which the
// loaded objects call (their global offset tables) are overwritten, where they hold the real function or wait for it
// to be looked up; as heaptrack does. Calls inside the object that defines malloc, and through pointers that were
// stored before, are not seen. Cost: O(relocations of all objects), once, and again after objects were loaded.
#pragma once

namespace heapyard::tracer {

// Leads the calls here. False: there is nothing to do, this library was preloaded.
bool redirect_calls();
// The same for objects that were loaded since, if the last look is a while ago.
void redirect_newcomers();
// In a forked child, which may have lost a thread that was at it.
void redirect_after_fork();
// Everyone calls the real functions again; this library stays where it is.
void give_calls_back();

}  // namespace heapyard::tracer
