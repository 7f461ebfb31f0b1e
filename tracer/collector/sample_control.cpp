// SPDX-License-Identifier: Apache-2.0
#include "tracer/collector/sample_control.hpp"

#include <algorithm>
#include <cmath>

namespace heapyard::tracer {

bool SampleControl::falls_behind(std::uint64_t now) {
  constexpr std::uint64_t kWindow = 200'000, kNaps = 500;
  const std::uint64_t naps = session_.header().naps.load(std::memory_order_relaxed);
  if (now < naps_from_ + kWindow) return false;
  const bool behind = naps - naps_ > kNaps;
  naps_ = naps;
  naps_from_ = now;
  return behind;
}

void SampleControl::step_down(std::uint64_t now) {
  sample_every(14);
  mode_ = Mode::kSampled;
  session_.header().mode.store(mode_);
  session_.header().activity.begin_anew();
  stepped_ = true;
  rate_from_ = now;
  rate_samples_ = samples_;
}

// A small heap that turns over fast gets more samples, for else its size would be noise; and so does who asked for
// every event.
void SampleControl::keep_rate(std::uint64_t now, std::int64_t live) {
  constexpr std::uint64_t kWindow = 50'000;
  constexpr double kExcused = 50'000, kMost = 4000, kForSmall = 16'000;  // samples a second
  if (exact()) return;
  const std::uint32_t interval = log2_interval_;
  const bool coarse = live >> 8 < std::int64_t{1} << interval;
  const double most = stepped_ ? kExcused : coarse ? kForSmall : kMost, few = most / 8;
  const double window = static_cast<double>(std::max(now - rate_from_, kWindow)) * 1e-6;
  const double rate = static_cast<double>(samples_ - rate_samples_) / window;  // at least, of one that is not over
  if (rate <= most && now < rate_from_ + kWindow) return;
  rate_from_ = now;
  rate_samples_ = samples_;
  if (first_interval_ == 0) first_interval_ = interval;
  if (rate > most) {
    const auto steps = static_cast<std::uint32_t>(std::ceil(std::log2(rate / most)));
    sample_every(std::min(interval + steps, 40u));
  } else if (rate < few && interval > std::max(first_interval_, least_interval_)) {
    sample_every(interval - 1);
  }
  widest_interval_ = std::max(widest_interval_, log2_interval_);
}

void SampleControl::double_interval() {
  least_interval_ = log2_interval_ + 1;
  sample_every(least_interval_);
}

void SampleControl::sample_every(std::uint32_t log2_interval) {
  log2_interval_ = log2_interval;
  session_.header().log2_interval.store(log2_interval, std::memory_order_relaxed);
}

}  // namespace heapyard::tracer
