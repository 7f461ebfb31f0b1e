// SPDX-License-Identifier: Apache-2.0
// When it is, by the stamps of a traced program.
//
// Idea: events carry the processor's stamp only. How long a stamp is follows from the two ends of the run so far, whose
// time is known by both clocks, so it is known the better the longer the run is. Cost: O(1).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class ProgramClock {
 public:
  // As the header says at first: the program may write over it.
  explicit ProgramClock(const Header& header)
      : start_stamp_(header.start_stamp), start_nanoseconds_(header.start_nanoseconds) {
    calibrate();
  }

  // Looks at both clocks.
  void calibrate() {
    now_stamp_ = stamp();
    const std::uint64_t nanoseconds = monotonic_ns() - start_nanoseconds_;
    now_ = nanoseconds / 1000;
    if (now_stamp_ > start_stamp_ && nanoseconds > 0)
      nanoseconds_per_stamp_ = static_cast<double>(nanoseconds) / static_cast<double>(now_stamp_ - start_stamp_);
  }

  // Of the last look, microseconds since tracing began.
  std::uint64_t now() const { return now_; }
  std::uint64_t now_stamp() const { return now_stamp_; }
  // The same of a stamp, never later than the last look.
  std::uint64_t microseconds(std::uint64_t stamp) const {
    if (stamp <= start_stamp_) return 0;
    const double nanoseconds = static_cast<double>(stamp - start_stamp_) * nanoseconds_per_stamp_;
    return std::min(now_, static_cast<std::uint64_t>(nanoseconds / 1000));
  }
  std::uint64_t start_stamp() const { return start_stamp_; }
  std::uint64_t start_nanoseconds() const { return start_nanoseconds_; }

 private:
  std::uint64_t start_stamp_, start_nanoseconds_;
  double nanoseconds_per_stamp_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t now_stamp_ = 0;
};

}  // namespace heapyard::tracer
