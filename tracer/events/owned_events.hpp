// SPDX-License-Identifier: Apache-2.0
// Writes events of blocks that are known by their owner, as exact mode's are.
//
// Cost: O(1); one word where the thread records alone, else two, and one more for a size that is very large. Threads:
// each its own ring. In the middle of a recording.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/current_session.hpp"
#include "tracer/events/ring_room.hpp"
#include "tracer/events/thread_state.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

// A stamp by which the thread's next event is put in order, counted from the session's. It is ready().
inline std::uint64_t when(const ThreadState& self) { return self.since != 0 ? self.since : since_start(); }

// An event of a block of fewer than 1 << kBriefSizeBits bytes, into two words that were reserved.
[[gnu::always_inline]] inline void write_small(ThreadState& self, std::uint64_t* at, Kind kind, const Owned& owned) {
  if (self.since != 0) [[likely]] {
    at[0] = brief(kind, owned);
    self.ring.publish(1);
  } else {
    at[0] = first_word(kind, since_start());
    at[1] = owned.size << Owner::kBits | owned.owner.word;
    self.ring.publish(2);
  }
}

// False: there was no room.
[[gnu::always_inline]] inline bool write_owned(ThreadState& self, Kind kind, const Owned& owned, std::uint64_t stamp) {
  const std::uint64_t more = owned.size >> Owner::kSizeBits;
  const std::size_t words = more == 0 ? 2 : 3;
  std::uint64_t* at = room(self, words);
  if (at == nullptr) return false;
  if (more != 0) [[unlikely]]
    *at++ = first_word(Kind::kMore, more);
  at[0] = first_word(kind, stamp);
  at[1] = owned.size << Owner::kBits | owned.owner.word;
  self.ring.publish(words);
  return true;
}

}  // namespace heapyard::tracer
