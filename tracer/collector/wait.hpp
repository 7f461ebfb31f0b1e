// SPDX-License-Identifier: Apache-2.0
// Sleeps until one of many programs rings its bell.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "tracer/session/bell.hpp"

namespace heapyard::tracer {

// Until one of `bells` has rung since it was expected, or `until`: nanoseconds of CLOCK_MONOTONIC. False: this kernel
// cannot (before Linux 5.16), or there are too many. O(bells).
inline bool wait_for(const std::vector<Bell*>& bells, std::uint64_t until) {
  std::array<futex_waitv, FUTEX_WAITV_MAX> words{};
  if (bells.size() > words.size()) return false;
  for (std::size_t index = 0; index < bells.size(); ++index) {
    words[index].val = 1;
    words[index].uaddr = reinterpret_cast<std::uintptr_t>(bells[index]->word());
    words[index].flags = FUTEX_32;
  }
  const timespec limit{static_cast<time_t>(until / 1'000'000'000u), static_cast<long>(until % 1'000'000'000u)};
  return syscall(SYS_futex_waitv, words.data(), bells.size(), 0, &limit, CLOCK_MONOTONIC) >= 0 || errno == EAGAIN ||
         errno == ETIMEDOUT || errno == EINTR;
}

}  // namespace heapyard::tracer
