// SPDX-License-Identifier: Apache-2.0
// When the resident memory of a program is looked at closely.
//
// Idea: while it grows, at each twentieth of growth, so that one look is near its peak; where it has shrunk by an
// eighth since the last look; and now and then. A look takes the kernel time in proportion to the program's areas. So
// all looks together take at most a hundredth of the run, and some 50 ms at its beginning. Times in microseconds. Cost:
// O(1).
#pragma once

#include <algorithm>
#include <cstdint>

namespace heapyard::tracer {

class AccountPace {
 public:
  // The program has named a phase: soon.
  void ask() { asked_ = true; }

  bool due(std::uint64_t now, std::int64_t resident) const {
    const std::uint64_t most = kAtFirst + now / kShare;
    if (asked_) return spent_ + last_ <= most;  // of which the other half is kept for it
    return now >= next_ && (resident > grown_ || resident < shrunk_ || now >= latest_) && spent_ + last_ <= most / 2;
  }

  // Who asks from now on asks for another.
  void begin_look() { asked_ = false; }
  void end_look(std::uint64_t now, std::int64_t resident, std::uint64_t took) {
    grown_ = std::max(grown_, resident + resident / kStep + kLeastGrowth);
    shrunk_ = resident - resident / kShrunk - kLeastGrowth;
    next_ = now + kLeastPause;
    latest_ = now + std::max(kSeldom, now / kStep);
    last_ = took;
    spent_ += took;
  }

 private:
  static constexpr std::int64_t kStep = 20, kShrunk = 8, kLeastGrowth = 256 << 10;
  static constexpr std::uint64_t kFirst = 50'000;  // of a build's many programs most have ended by then
  static constexpr std::uint64_t kLeastPause = 20'000, kSeldom = 10'000'000, kAtFirst = 50'000, kShare = 100;

  bool asked_ = false;
  std::int64_t grown_ = 0, shrunk_ = 0;  // bytes beyond which it has grown, below which it has shrunk
  std::uint64_t next_ = kFirst, latest_ = 0;
  std::uint64_t last_ = 0, spent_ = 0;  // that looks took
};

}  // namespace heapyard::tracer
