// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of CLOCK_MONOTONIC, which the traced program and the collector share.
#pragma once

#include <time.h>

#include <cstdint>

namespace heapyard::tracer {

// One call of the C library. Threads: any.
inline std::uint64_t monotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace heapyard::tracer
