// SPDX-License-Identifier: Apache-2.0
// Exact mode: every allocation and every free, each block with a word that says whose it is.
//
// Idea: who owns a block is remembered beside it (block_tags.hpp) and sent along with its free. What comes often has a
// short way, here to be inlined: a thread at hand, a chain that is remembered, memory for the block's word, room in the
// ring. Anything else takes the long way. Cost: O(1), and O(frames) where the chain has to be walked. Threads: a
// block's word is touched by whoever owns the block; each thread writes its own ring; no locks. Signals:
// recording_guard.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/block_tags.hpp"
#include "tracer/events/free_kind.hpp"
#include "tracer/events/owned_events.hpp"
#include "tracer/events/ready.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

struct ExactBlocks {
  BlockTags tags;        // also for the blocks of that time after it has come down to samples
  bool tagging = false;  // changes only in connect() and after a fork
};
inline constinit ExactBlocks exact;

// False: there is no address space.
bool prepare_exact();
// A session begins. `tagging`: in this mode. The words of an earlier session's blocks are forgotten.
void begin_exact(bool tagging);

// The short way of an allocation. False: the long way has to be taken.
[[gnu::always_inline]] inline bool record_quickly(ThreadState& self, void* block, std::size_t size,
                                                  std::uint64_t chain) {
  if (chain == 0 || !at_hand(self) || block == nullptr || size >> kBriefSizeBits != 0) return false;
  begin_short_recording(self);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  std::uint64_t* word = exact.tags.place_at_once(address, size);
  std::uint64_t* at = self.ring.reserve_at_once(2);
  const bool quick = word != nullptr && at != nullptr;
  if (quick) [[likely]] {
    const Owned owned{Owner::of(chain, self.number), size};
    write_small(self, at, Kind::kOwned, owned);
    BlockTags::put(word, address, owned);
    self.last = address;
  }
  end_short_recording(self);
  return quick;
}
// The long way. The thread is ready(), and this is in the middle of a recording.
void record_owned(ThreadState& self, void* block, std::size_t size, void* frame);

// The free of a block with a word: the short way. False: the long way has to be taken.
[[gnu::always_inline]] inline bool release_quickly(ThreadState& self, Kind kind, const Owned& owned) {
  if (!at_hand(self) || owned.size >> kBriefSizeBits != 0) return false;
  begin_short_recording(self);
  std::uint64_t* at = self.ring.reserve_at_once(2);
  const bool quick = at != nullptr;
  if (quick) [[likely]]
    write_small(self, at, kind, owned);
  end_short_recording(self);
  return quick;
}
// The long way, also of a block without a word, which may be a sample. True: it is recorded.
bool release_slowly(void* block, FreeKind free, Kind kind, Owned owned);

// The realloc of the block `moved` failed: it lives on. As record_owned().
void record_back(ThreadState& self, std::uintptr_t address, const Owned& moved);

}  // namespace heapyard::tracer
