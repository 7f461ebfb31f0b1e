// SPDX-License-Identifier: Apache-2.0
// Counts the instructions of single calls by stepping through them: exact, whatever else the machine does.
//
// A child runs the workload and marks the calls to be counted; its parent lets it run freely up to a mark and one
// instruction at a time behind it. Cost: some microseconds per instruction counted, nothing for the others. Only
// user-mode instructions count: a system call is one. x86-64 and Linux; elsewhere `works` is false.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapyard::check {

#if defined(__x86_64__)
inline constexpr bool kSteppingWorks = true;
#else
inline constexpr bool kSteppingWorks = false;
#endif

// What the child tells and learns, in memory both see.
struct Steps {
  bool counting;        // from mark to end of mark
  std::uint64_t most;   // instructions of the longest call counted
  std::uint64_t total;  // of all of them
  std::uint64_t calls;
  std::uint64_t most_call;  // which one was the longest, from 0
  bool cut;                 // the budget ended within the longest call, which took more than was counted
};

// For the child: what stands between the two is counted.
void begin_counting(Steps& steps);
void end_counting(Steps& steps);

// Runs workload(steps) in a child and counts at most `budget` instructions; calls after that run freely, and of the one
// it ended in `most` says at least how many it took. False if the child died or stepping is not permitted here.
bool count_steps(void (*workload)(Steps& steps, std::size_t argument), std::size_t argument, std::uint64_t budget,
                 Steps& result);

}  // namespace heapyard::check
