// SPDX-License-Identifier: Apache-2.0
// The fast path of an allocation: a thread's count of bytes, down to the next allocation that is looked at.
#pragma once

#include <cstddef>

#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// Whether an allocation of `size` bytes is to be recorded; every one in exact mode, and the first of a thread. O(1).
inline bool is_due(std::size_t size) { return size >= this_thread.to_sample; }

// It is not.
inline void count_down(std::size_t size) { this_thread.to_sample -= size + 1; }

}  // namespace heapyard::tracer
