// SPDX-License-Identifier: Apache-2.0
// How coarse records are to be, so that there is room for more of them however long the program runs.
//
// Idea: half of what may be recorded is used as fast as it comes. From then on, from t0, what may be used at t rises to
// all but a sixteenth, by the square root of t0 / t: a run that lasts four times as long halves what is left. While
// more is used, the rate and the shortest interval double; while less, they come down again, at most 1,000 times in a
// run that lasts e times as long. Cost: O(1).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace heapyard::tracer {

class Pace {
 public:
  static constexpr double kFirstRate = 0.05;
  static constexpr std::uint64_t kShortest = 10'000;  // microseconds
  static constexpr double kHalf = 0.5, kMost = 15.0 / 16;

  // `share` of what may be recorded that is used; every look. `now`: microseconds.
  void keep(double share, std::uint64_t now) {
    if (half_at_ == 0 && share < kHalf) return;
    if (half_at_ == 0) half_at_ = std::max(now, kShortest);
    const double so_far = std::sqrt(static_cast<double>(half_at_) / static_cast<double>(std::max(now, half_at_)));
    if (share > kMost) {
      level_ = kNothing;
    } else if (share > kMost - (kMost - kHalf) * so_far) {
      level_ = std::min(level_ + 1, kNothing);
    } else if (level_ > 0 && now >= lowered_at_ + std::max<std::uint64_t>(100'000, now / 1000)) {
      --level_;
      lowered_at_ = now;
    }
    coarsest_ = std::max(coarsest_, level_);
  }

  // Of its last record by which a node must have changed; when nothing is recorded, more than any does.
  double rate() const { return rate_of(level_); }
  double coarsest_rate() const { return rate_of(coarsest_); }
  // Microseconds between two records of a node.
  std::uint64_t shortest(std::uint64_t now) const { return std::max(kShortest, now / 2000) << level_; }
  bool recording() const { return level_ < kNothing; }
  bool limited() const { return half_at_ != 0; }

 private:
  static constexpr unsigned kNothing = 6;
  static double rate_of(unsigned level) {
    return level < kNothing ? std::ldexp(kFirstRate, static_cast<int>(level)) : 1e9;
  }

  std::uint64_t half_at_ = 0, lowered_at_ = 0;
  unsigned level_ = 0, coarsest_ = 0;
};

}  // namespace heapyard::tracer
