// SPDX-License-Identifier: Apache-2.0
// Mode "pages": page records, spans and large blocks that a heap of this project takes and gives back.
//
// Cost: O(frames) an event. Threads: any, with locks of the heap held: nothing here allocates from it.
#pragma once

#include <cstddef>

#include "heap/tracing/page_events.hpp"
#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

extern const tracing::PageEvents kPageEvents;  // what the heap is to call

// The thread is ready(), and this is in the middle of a recording.
void record_page(ThreadState& self, void* memory, std::size_t bytes, void* frame);

}  // namespace heapyard::tracer
