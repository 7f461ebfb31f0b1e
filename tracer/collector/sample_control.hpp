// SPDX-License-Identifier: Apache-2.0
// How much of a program is recorded: which mode, and at which interval it is sampled.
//
// Idea: a sample costs about a microsecond, so the interval doubles while there are more of them a second than that
// allows, and comes down again when there are few. Each sample says at which interval it was drawn, so no sum is
// biased. Exact mode becomes sampling where the program has to wait. The program reads both in the shared memory. Cost:
// O(1).
#pragma once

#include <cstdint>

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class SampleControl {
 public:
  // As the header says at first: the program may write over it.
  explicit SampleControl(const Session& session)
      : session_(session), mode_(session.header().mode.load()), log2_interval_(session.header().log2_interval.load()) {}

  Mode mode() const { return mode_; }
  bool exact() const { return mode_ == Mode::kExact || mode_ == Mode::kPages; }
  std::uint32_t log2_interval() const { return log2_interval_; }
  // Mean bytes between two samples; 0: every event is recorded.
  std::uint64_t interval() const { return exact() ? 0 : std::uint64_t{1} << log2_interval_; }
  std::uint64_t widest_interval() const { return widest_interval_ == 0 ? 0 : std::uint64_t{1} << widest_interval_; }

  void note_sample() { ++samples_; }

  // Whether the program waits for us: a quarter of a fifth of a second, by the naps of about 0.1 ms its threads took. A
  // table that grows, or a burst, holds it up for less. `now`: microseconds.
  bool falls_behind(std::uint64_t now);
  // From exact to sampled. What lives by then is known to the byte until it is freed; what comes later is sampled.
  void step_down(std::uint64_t now);
  // Doubles the interval or halves it as the rate of samples says. `live`: bytes.
  void keep_rate(std::uint64_t now, std::int64_t live);
  // The interval is twice as large from now on, and never smaller again.
  void double_interval();

 private:
  void sample_every(std::uint32_t log2_interval);

  Session session_;
  Mode mode_;
  std::uint32_t log2_interval_;
  bool stepped_ = false;  // from exact
  std::uint64_t naps_ = 0, naps_from_ = 0;
  std::uint64_t samples_ = 0, rate_samples_ = 0, rate_from_ = 0;
  std::uint32_t first_interval_ = 0, least_interval_ = 0, widest_interval_ = 0;  // their logarithms
};

}  // namespace heapyard::tracer
