// SPDX-License-Identifier: Apache-2.0
// The kernel's clocks, in nanoseconds. Cost: one call of the C library. Threads: any; signal handlers may ask as well.
#pragma once

#include <time.h>

#include <cstdint>

namespace heapyard {

inline std::uint64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

// Since some start; the same for all processes of the machine, and never set.
inline std::uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
// Since 1970.
inline std::uint64_t real_ns() { return clock_ns(CLOCK_REALTIME); }
// That processors have worked for this process, or for this thread.
inline std::uint64_t process_cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
inline std::uint64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

inline void sleep_ms(std::int64_t ms) {
  const timespec wait{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&wait, nullptr);
}

}  // namespace heapyard
