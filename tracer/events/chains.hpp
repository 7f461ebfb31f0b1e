// SPDX-License-Identifier: Apache-2.0
// The number of a call chain, of which the collector has been told.
//
// Idea: three ways, the cheapest first. A chain that is expected next is compared (chain_memo.hpp); one that is
// remembered is found by where it begins; any other is walked (chain_walker.hpp), numbered, told if it is new to this
// thread's ring, and remembered. Cost: O(frames) each. Threads: each its own memory; numbers are shared without a lock.
// Signals: only the thread's own recording comes here. Errors: 0 for a number, where there was no room; it is counted.
#pragma once

#include <cstdint>

#include "tracer/events/thread_state.hpp"
#include "tracer/events/unwinder.hpp"

namespace heapyard::tracer {

// False: there is no address space for the numbers.
bool prepare_chains();

// The thread is ready() for all that follow. `at`: the registers of the caller. `frame`: of the function it called.

// If it is the chain that is expected; else 0.
[[gnu::always_inline]] inline std::uint64_t expected_chain_of(ThreadState& self, const Registers& at) {
  return self.chains->walker.recall_expected(self.chains->memo, at, self.stack.readable_until(at.sp - 8));
}
// If it is another one that is known by where it begins; else 0.
std::uint64_t other_remembered_chain_of(ThreadState& self, const Registers& at);
// Walked, and remembered from now on.
std::uint64_t walked_chain_of(ThreadState& self, void* frame);
// Walked only.
std::uint64_t chain_of(ThreadState& self, void* frame);

}  // namespace heapyard::tracer
