// SPDX-License-Identifier: Apache-2.0
// A thread's ring: it takes one that nobody has, and leaves it to the next thread when it ends.
#pragma once

#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// A ring that nobody has: the first with half of it empty, else the first with room. Threads in quick succession share
// one, so they need neither wait for the collector nor touch other pages. False: there is none. `self` has memory for
// chains. O(rings). Threads: any, rings are taken by compare-and-swap.
bool take_ring(ThreadState& self);

// This thread's ring goes back when it ends. O(1).
void give_ring_back_at_end(ThreadState& self);
// Once for the process, before that.
void give_rings_back_at_thread_ends();

}  // namespace heapyard::tracer
