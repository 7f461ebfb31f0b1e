// SPDX-License-Identifier: Apache-2.0
// Writes events of blocks that are known by their address: samples, and pages.
//
// Cost: O(1). Threads: each its own ring. In the middle of a recording.
#pragma once

#include <cstdint>

#include "tracer/events/ring_room.hpp"
#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// Into four words that were reserved. `size`: with the interval above it (Kind::kAlloc).
[[gnu::always_inline]] inline void write_allocation(ThreadState& self, std::uint64_t* at, std::uintptr_t address,
                                                    std::uint64_t now, std::uint64_t size, std::uint64_t chain) {
  at[0] = first_word(Kind::kAlloc, address);
  at[1] = now;
  at[2] = size;
  at[3] = chain;
  self.ring.publish(4);
}

// An event that is the address and the time only. Nothing if there is no room.
[[gnu::always_inline]] inline void write_short(ThreadState& self, Kind kind, std::uintptr_t address) {
  if (std::uint64_t* at = room(self, 2)) {
    at[0] = first_word(kind, address);
    at[1] = stamp();
    self.ring.publish(2);
  }
}

}  // namespace heapyard::tracer
