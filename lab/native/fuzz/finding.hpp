// SPDX-License-Identifier: Apache-2.0
// What ends a run: one JSON object on standard output, and exit code 1. The first one counts.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstdint>

#include "operation.hpp"

namespace heapyard::fuzz {

// What each thread does just now, for whoever dies or hangs.
struct Progress {
  std::atomic<std::uint64_t> done{0};  // operations of this thread
  std::atomic<std::uint8_t> call{0};
};
extern Progress progress[kMostThreads];

// For what this thread of the system does from now on.
void sit_down(unsigned thread);

// `kind`: one word, by which a shorter sequence is recognised to find the same. printf's format. Async-signal-safe but
// for the format's conversions of floating point, of which there are none.
[[noreturn, gnu::format(printf, 3, 4)]] void found(unsigned thread, const char* kind, const char* format, ...);

// Crashes are findings of kind "crash". SIGTERM, which who waits sends when it takes too long, gives "hang".
void take_signals();

// This process is a child that stands for one operation: it says what it found on the same output.
void become_child();

}  // namespace heapyard::fuzz
