// SPDX-License-Identifier: Apache-2.0
// Room in a thread's ring, waiting for the collector if need be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// nullptr if that is in vain. Sampled: the collector looks every 10 ms, so a burst waits for one look, once, and else
// is dropped and counted: a program is not held up. Exact: as long as the collector makes progress; it counts the naps
// and may step down to sampling.
[[gnu::cold]] std::uint64_t* wait_for_room(ThreadState& self, std::size_t words);

// O(1) while there is room. By the thread itself, in the middle of a recording.
[[gnu::always_inline]] inline std::uint64_t* room(ThreadState& self, std::size_t words) {
  std::uint64_t* at = self.ring.reserve(words);
  return at != nullptr ? at : wait_for_room(self, words);
}

}  // namespace heapyard::tracer
