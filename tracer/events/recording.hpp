// SPDX-License-Identifier: Apache-2.0
// Records allocations and frees of this process for the collector: what the functions of malloc call.
//
// Idea: the fast path of an allocation subtracts its size from a counter of the thread (countdown.hpp); that of a free
// loads one counter of its page (free_filter.hpp). Everything else is out of line, a file per mode: exact.hpp,
// sampled.hpp, within_heap.hpp, page_mode.hpp. A free is recorded before the block is given back, an allocation after
// the block was got, so that whoever gets the same address next comes later. Threads: each writes a ring of its own; no
// locks. Fork: the child begins a session of its own at its first record. Signals: a recording interrupted by one that
// allocates keeps its ring; the interrupter's allocations are counted as lost, and in exact mode its frees are recorded
// afterwards. Errors: without a collector nothing is recorded and the program runs as ever.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/countdown.hpp"
#include "tracer/events/free_filter.hpp"
#include "tracer/events/free_kind.hpp"

namespace heapyard::tracer {

// The number of the call chain of the function with this frame, __builtin_frame_address(0), if it is remembered and
// every event is recorded; else 0.
std::uint64_t remembered_chain(void* frame);
// `frame`: of the function the program called. `chain`: what remembered_chain() said of it. Returns the block.
void* record_allocation(void* block, std::size_t size, void* frame, std::uint64_t chain);
// True: it was one that is recorded.
bool record_free(void* block, FreeKind kind);
void record_stay(void* block);  // the realloc failed
void record_mark(const char* name);

// Who tells of an allocation: the functions of malloc, or a heap that is observed.
enum class Source { kMalloc, kPages };
// The long way of an allocation, whatever the mode is and the thread in the middle of.
void record_event(void* block, std::size_t size, void* frame, Source source);

// Whether events come from within the program's heap, one of this project: then malloc is the heap's own.
bool told_by_heap();

// The allocation is due: what `allocate` gives is recorded, unless that failed. What is remembered of the chain has
// often to come from far away; it does while `allocate` is at work.
template <class Allocate>
[[gnu::always_inline]] inline void* recorded(std::size_t size, void* frame, Allocate allocate) {
  const std::uint64_t chain = remembered_chain(frame);
  return record_allocation(allocate(), size, frame, chain);
}

}  // namespace heapyard::tracer
