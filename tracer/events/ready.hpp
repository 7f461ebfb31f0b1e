// SPDX-License-Identifier: Apache-2.0
// Whether a thread can record at once, and what it does first if not.
//
// Idea: the session's activity is one word, and a thread that finds it as it left it has a ring of the present session
// and knows its mode and its modules. Else it catches up with whatever has changed. Cost: O(1), a load and a
// comparison; to catch up, O(rings) the first time. Threads: each its own state. Signals: not in the middle of a
// recording.
#pragma once

#include "tracer/events/current_session.hpp"
#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

inline bool as_left(const ThreadState& self) { return current.activity->word() == self.activity; }

// False: nothing is recorded any more, there is no ring, or no memory.
[[gnu::cold]] bool make_ready(ThreadState& self);
// There is a session, and the thread is in the middle of a recording.
inline bool ready(ThreadState& self) { return as_left(self) || make_ready(self); }

// The thread is ready(), and in the middle of no recording.
[[gnu::always_inline]] inline bool at_hand(const ThreadState& self) { return as_left(self) && self.busy == Busy::kNo; }

// The thread can draw distances from now on.
inline void seed(ThreadState& self) {
  if (self.random == 0) self.random = stamp() ^ reinterpret_cast<std::uintptr_t>(&self) ^ 0x9e3779b97f4a7c15u;
}

}  // namespace heapyard::tracer
