// SPDX-License-Identifier: Apache-2.0
// Memory over the measured phase alone: peak, average over time, and the series, without the mutator's bookkeeping.
//
// Idea: a timer signal reads /proc/self/statm every few milliseconds. There is no helper thread. Some heaps have faster
// paths for programs of one thread only (glibc's malloc leaves its lock-free paths for good when a second thread
// starts), and a helper would also compete for a processor. The peak is exact whenever the process's own high-water
// mark rises within the phase; otherwise it is the largest sample. Idle time before and after is not averaged in; the
// published larson runs do average it in.
// Cost: 1 to 2 us per look, as a rule in the main thread; O(workers) when live bytes are tracked. Uses SIGALRM; one at
// a time.
#pragma once

#include <cstdint>
#include <span>

#include "arena.hpp"
#include "process_memory.hpp"
#include "thinning.hpp"

namespace heapyard::kit {

// What the sampler asks at each look; both are called from a signal handler.
struct MemorySource {
  std::uint64_t (*bookkeeping)(const void* context);  // resident bytes that are not the heap's
  std::uint64_t (*live)(const void* context);         // bytes the workload holds; null: not tracked
  const void* context;
};

class MemorySampler {
 public:
  static constexpr std::size_t kMost = 4096;  // kept in the series; beyond, every other one is dropped
  static constexpr std::size_t kBytes = 3 * kMost * sizeof(std::uint64_t) + 4 * kCacheLine;

  void prepare(Arena& arena, const MemorySource& source);
  // The process's resident bytes before the workload's first call, bookkeeping subtracted.
  void note_base() { base_ = heap_and_base(); }
  // Both ends of the measured phase, called by one thread. `period_ms` > 0.
  void begin(std::int64_t period_ms);
  void end();

  std::uint64_t base() const { return base_; }
  std::uint64_t peak() const { return peak_; }                     // bytes, base included
  double average() const { return average(rss_integral_); }        // bytes, base included
  double live_average() const { return average(live_integral_); }  // bytes
  std::uint64_t live_peak() const { return live_peak_; }
  // Peak of the heap as a multiple of the peak of what the workload held, by the looks.
  double blowup() const {
    return static_cast<double>(peak_ > base_ ? peak_ - base_ : 0) / static_cast<double>(live_peak_);
  }
  bool tracks_live() const { return source_.live != nullptr; }
  std::uint64_t looks() const { return kept_.seen(); }
  std::span<const std::uint64_t> times_us() const { return {times_us_, kept_.stored()}; }
  std::span<const std::uint64_t> rss() const { return {rss_, kept_.stored()}; }
  std::span<const std::uint64_t> live() const { return {live_, tracks_live() ? kept_.stored() : 0}; }

 private:
  static void on_timer(int);
  void look();
  std::uint64_t heap_and_base() const;
  double average(double integral) const {
    return last_ns_ > first_ns_ ? integral / static_cast<double>(last_ns_ - first_ns_) : 0;
  }

  MemorySource source_{};
  ResidentMemory resident_;
  std::uint64_t *times_us_ = nullptr, *rss_ = nullptr, *live_ = nullptr;
  Thinning<kMost> kept_;
  std::uint64_t first_ns_ = 0, last_ns_ = 0, last_rss_ = 0, last_live_ = 0;
  double rss_integral_ = 0, live_integral_ = 0;  // bytes x ns, by trapezoids
  std::uint64_t base_ = 0, peak_ = 0, live_peak_ = 0, peak_before_ = 0;
};

}  // namespace heapyard::kit
