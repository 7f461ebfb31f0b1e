// SPDX-License-Identifier: Apache-2.0
// Records allocations and frees of this process for the collector.
//
// Idea: the fast path of an allocation subtracts its size from a counter of the thread; that of a free loads one
// counter of its page. Everything else is here, out of line. A free is recorded before the block is given back, an
// allocation after the block was got, so that whoever gets the same address next comes later. Threads: each writes a
// ring of its own; no locks. Fork: the child begins a session of its own at its first record. Signals: a recording
// interrupted by one that allocates keeps its ring; the interrupter's allocations are counted as lost, and in exact
// mode its frees are recorded afterwards. Errors: without a collector nothing is recorded and the program runs as ever.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/thread_state.hpp"
#include "tracer/session/sample_set.hpp"

namespace heapyard::tracer {

extern thread_local constinit ThreadState this_thread __attribute__((tls_model("initial-exec")));

// What the fast path of free looks at: a count of sampled blocks by place; where every free is recorded, one and the
// same count, so that no others take room in the processor's caches. Changes seldom.
struct FreeFilter {
  std::atomic<SampleCount*> counts;  // kSampleCounts of them
  std::atomic<std::size_t> mask;     // of their places
};
extern FreeFilter free_filter __attribute__((visibility("hidden")));  // so that its address is no load

enum class FreeKind { kFree, kMove };

// The number of the call chain of the function with this frame, __builtin_frame_address(0), if it is remembered and
// every event is recorded; else 0.
std::uint64_t remembered_chain(void* frame);
// `frame`: of the function the program called. `chain`: what remembered_chain() said of it. Returns the block.
void* record_allocation(void* block, std::size_t size, void* frame, std::uint64_t chain);
// True: it was one that is recorded.
bool record_free(void* block, FreeKind kind);
void record_stay(void* block);  // the realloc failed
void record_mark(const char* name);
void forget_modules();  // some may have been unloaded

// Whether events come from within the program's heap, one of this project: then malloc is the heap's own.
bool told_by_heap();

enum class AttachResult { kTraced, kTracedAlready, kNobodyThere };

// Begins a session in a process that runs already. `wish`: as HEAPYARD_TRACE (connection.hpp). What was allocated
// before is not known.
AttachResult attach(const char* wish);

// Frees of the early blocks come the long way from now on.
void watch_early_blocks();

// Whether an allocation of `size` bytes is to be recorded; every one in exact mode, and the first of a thread.
inline bool is_due(std::size_t size) { return size >= this_thread.to_sample; }

// It is not.
inline void count_down(std::size_t size) { this_thread.to_sample -= size + 1; }

// It is: what `allocate` gives is recorded, unless that failed. What is remembered of the chain has often to come from
// far away; it does while `allocate` is at work.
template <class Allocate>
[[gnu::always_inline]] inline void* recorded(std::size_t size, void* frame, Allocate allocate) {
  const std::uint64_t chain = remembered_chain(frame);
  return record_allocation(allocate(), size, frame, chain);
}

// Whether a free of `block` has to be looked at.
inline bool watched(const void* block) {
  const std::size_t place =
      reinterpret_cast<std::uintptr_t>(block) / kSampleReach & free_filter.mask.load(std::memory_order_acquire);
  return free_filter.counts.load(std::memory_order_relaxed)[place].load(std::memory_order_relaxed) != 0;
}

}  // namespace heapyard::tracer
