// SPDX-License-Identifier: Apache-2.0
// Sampled mode: an allocation now and then, and its free.
//
// Idea: a distance in bytes is drawn anew at each sample (poisson.hpp), and the fast path counts down to it. A sampled
// block is put into a set that its free asks (sample_set.hpp). Cost: O(frames) a sample, O(1) a free that is looked at.
// Threads: any; the set needs no lock, as an address is its owner's. Signals: recording_guard.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/current_session.hpp"
#include "tracer/events/free_kind.hpp"
#include "tracer/events/ring_room.hpp"
#include "tracer/events/thread_state.hpp"
#include "tracer/session/sample_set.hpp"

namespace heapyard::tracer {

inline constinit SampleSet samples;  // of the session

// An allocation that the count has come down to. In the middle of a recording, and there is a session.
void record_drawn(ThreadState& self, void* block, std::size_t size, void* frame);

// Out of the set again.
void take_sample_back(std::uintptr_t address);
// Puts a block into the set, and reserves words for its record. nullptr: there is no room in either; it is counted, and
// the block is no sample. In the middle of a recording of a thread that is ready().
[[gnu::always_inline]] inline std::uint64_t* place_sample(ThreadState& self, std::uintptr_t address, std::uint64_t now,
                                                          std::size_t words) {
  if (!samples.insert(address, now)) {
    shared().lost.set_full.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  std::uint64_t* at = room(self, words);
  if (at == nullptr) [[unlikely]]
    take_sample_back(address);
  return at;
}

// The free of a block that may be a sample, or a page record or span. True: it is recorded.
bool free_sampled(void* block, FreeKind kind);
// Its realloc failed: it lives on. In the middle of a recording of a thread that is ready().
void record_stays(ThreadState& self, std::uintptr_t address);

}  // namespace heapyard::tracer
