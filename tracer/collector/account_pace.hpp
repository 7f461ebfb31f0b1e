// SPDX-License-Identifier: Apache-2.0
// When the resident memory of a program is looked at closely.
//
// Idea: while it grows, at each twentieth of growth, so that one look is near its peak; where it has shrunk by an
// eighth since the last look; and now and then. A look takes the kernel time in proportion to the program's areas. So
// all looks together take at most a hundredth of the run, and some 50 ms at its beginning. The larger a look is beside
// what is left of that, the more must have grown; but where it comes to rest, a twentieth is enough: that may be its
// peak. Times in microseconds; what looks take is time of processors, which others' load does not lengthen. Cost: O(1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace heapyard::tracer {

class AccountPace {
 public:
  // The program has named a phase: soon.
  void ask() { asked_ = true; }

  bool due(std::uint64_t now, std::int64_t resident) {
    if (std::abs(resident - level_) > level_ / kRestless + kLeastGrowth) {
      level_ = resident;
      rests_since_ = now;
    }
    const std::uint64_t most = kAtFirst + now / kShare;
    if (asked_) return spent_ + last_ <= most;  // of which the other half is kept for it
    if (now < next_ || spent_ + last_ > most / 2) return false;
    if (now >= latest_) return true;
    if (resident <= grown_ && resident >= shrunk_) return false;
    const auto left = static_cast<double>(most / 2 - spent_ - last_);  // beside one look where it rests
    const auto moved = static_cast<double>(std::abs(resident - seen_));
    return now >= rests_since_ + kRest || moved * left >= static_cast<double>(seen_) * static_cast<double>(last_);
  }

  // Who asks from now on asks for another.
  void begin_look() { asked_ = false; }
  void end_look(std::uint64_t now, std::int64_t resident, std::uint64_t took) {
    grown_ = std::max(grown_, resident + resident / kStep + kLeastGrowth);
    shrunk_ = resident - resident / kShrunk - kLeastGrowth;
    seen_ = resident;
    next_ = now + kLeastPause;
    latest_ = now + std::max(kSeldom, now / kStep);
    last_ = took;
    spent_ += took;
  }

 private:
  static constexpr std::int64_t kStep = 20, kShrunk = 8, kRestless = 64, kLeastGrowth = 256 << 10;
  static constexpr std::uint64_t kFirst = 50'000;  // of a build's many programs most have ended by then
  static constexpr std::uint64_t kLeastPause = 20'000, kRest = 30'000, kSeldom = 10'000'000, kAtFirst = 50'000,
                                 kShare = 100;

  bool asked_ = false;
  std::int64_t grown_ = 0, shrunk_ = 0;  // bytes beyond which it has grown, below which it has shrunk
  std::int64_t seen_ = 0;                // by the last look
  std::int64_t level_ = 0;               // near which it has been since then:
  std::uint64_t rests_since_ = 0;
  std::uint64_t next_ = kFirst, latest_ = 0;
  std::uint64_t last_ = 0, spent_ = 0;  // that looks took
};

}  // namespace heapyard::tracer
