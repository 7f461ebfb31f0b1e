// Records allocations and frees of this process for the collector.
//
// Idea: the fast path of an allocation subtracts its size from a counter of the thread; that of a free loads one
// counter of its page. Everything else is here, out of line. A free is recorded before the block is given back, an
// allocation after the block was got, so that whoever gets the same address next has the later stamp. Threads: each
// writes a ring of its own; no locks. Fork: the child begins a session of its own at its first record. Signals: a
// recording interrupted by one that allocates keeps its ring; the interrupter is counted as lost. Errors: without a
// collector nothing is recorded and the program runs as ever.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/thread_state.hpp"
#include "tracer/session/sample_set.hpp"

namespace heapyard::tracer {

extern thread_local constinit ThreadState this_thread __attribute__((tls_model("initial-exec")));

// What the fast path of free looks at. Both are of this process and change seldom.
struct FreeTest {
  std::atomic<std::uint16_t>* filter;  // never null: before a session a page of zeros
  std::atomic<bool> every;             // exact: every free is recorded
};
extern FreeTest free_test;

enum class FreeKind { kFree, kMove };

// `frame`: __builtin_frame_address(0) of the function the program called.
void record_allocation(void* block, std::size_t size, void* frame);
void record_free(void* block, FreeKind kind);
void record_stay(void* block);  // the realloc failed
void record_mark(const char* name);
void forget_modules();  // some may have been unloaded

inline void allocated(void* block, std::size_t size, void* frame) {
  if ((this_thread.to_sample -= static_cast<std::int64_t>(size) + 1) < 0) [[unlikely]]
    record_allocation(block, size, frame);
}

// Whether a free of `block` has to be looked at.
inline bool watched(const void* block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  return free_test.filter[filter_place(address)].load(std::memory_order_relaxed) != 0 ||
         free_test.every.load(std::memory_order_relaxed);
}

}  // namespace heapyard::tracer
