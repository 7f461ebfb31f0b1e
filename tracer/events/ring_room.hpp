// SPDX-License-Identifier: Apache-2.0
// Room in a thread's ring, waiting for the collector if need be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// What is lost if there is no room: one sample of many, or what the program itself said.
enum class Loss : std::uint8_t { kSample, kMark };

// nullptr if that is in vain. Sampled: the collector looks every 10 ms, so a burst waits for one look, once, and else
// is dropped and counted: a program is not held up. A mark waits as long as the collector makes progress, and a second
// beyond, once. Exact: as long as the collector makes progress; it counts the naps and may step down to sampling.
[[gnu::cold]] std::uint64_t* wait_for_room(ThreadState& self, std::size_t words, Loss loss = Loss::kSample);

// O(1) while there is room. By the thread itself, in the middle of a recording.
[[gnu::always_inline]] inline std::uint64_t* room(ThreadState& self, std::size_t words) {
  std::uint64_t* at = self.ring.reserve(words);
  return at != nullptr ? at : wait_for_room(self, words);
}

}  // namespace heapyard::tracer
