// SPDX-License-Identifier: Apache-2.0
// The functions of a Python script that a thread is in, with their lines.
//
// Idea: the interpreter's frames are a list that is read in place, by the thread that they are of: so
// nothing changes meanwhile, also while it lets others run. Nothing is allocated. A call chain has, for each evaluation
// on the native stack, the functions that it evaluates, each as a word that is no address: kScript and the number of a
// place (script_places.hpp). Cost: O(Python frames), some 10 ns each. Threads: each its own. Errors: a layout other
// than expected: none from then on.
#pragma once

#include <cstdint>

#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// `program`: the path of what runs. False: there is no Python, or no memory for it; then scripts' functions have no
// names.
bool prepare_python(const char* program);

// Puts the words of the frames, innermost first, into `words`, and 0 after the last one of each evaluation; `most` at
// most; `cut` says whether there are more. Returns how many words. What the collector has not been told of yet it is.
// The thread is ready(). O(frames).
unsigned python_frames(ThreadState& self, std::uint64_t* words, unsigned most, bool& cut);

}  // namespace heapyard::tracer
