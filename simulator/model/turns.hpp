// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: always the thread with the least simulated time; threads on one core share it.
//
// Time is in ticks of 1/1024 cycle. Not thread-safe. O(threads) for each decision.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "directory.hpp"

namespace heapyard::simulator {

using Ticks = std::uint64_t;
inline constexpr Ticks kCycle = 1024;
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

using ThreadNumber = std::uint32_t;

class Turns {
 public:
  enum class State : std::uint8_t {
    kRunning,
    kReady,
    kAsleep,   // until somebody wakes it or its deadline comes
    kOutside,  // in the kernel, and back at a time that only the kernel knows
    kGone,
  };

  // Threads get the cores in order, a core for each while there are any. The seed decides among threads of the same
  // time, and how much later than its creator a thread starts: under `kMostOffset`.
  Turns(std::uint64_t seed, std::uint32_t cores) : random_(seed), core_free_(cores), core_threads_(cores) {}

  // A thread that is ready at `time`; its number is the next one.
  ThreadNumber add(Ticks time) {
    CoreNumber core = 0;
    for (CoreNumber i = 1; i < core_threads_.size(); ++i)
      if (core_threads_[i] < core_threads_[core]) core = i;
    ++core_threads_[core];
    const Ticks offset = threads_.empty() ? 0 : random_.below(kMostOffset);
    threads_.push_back({time + offset, kNever, random_.next(), core, State::kReady});
    return static_cast<ThreadNumber>(threads_.size() - 1);
  }

  struct Choice {
    ThreadNumber thread = kNobody;
    Ticks time = kNever;
    bool at_deadline = false;
  };
  // The thread that comes next; nobody if none is ready and no sleeper has a deadline.
  Choice next() const {
    Choice best;
    for (ThreadNumber number = 0; number < threads_.size(); ++number) {
      const Thread& thread = threads_[number];
      Ticks time;
      if (thread.state == State::kReady)
        time = std::max(thread.time, core_free_[thread.core]);
      else if (thread.state == State::kAsleep && thread.deadline != kNever)
        time = std::max(thread.deadline, core_free_[thread.core]);
      else
        continue;
      if (best.thread != kNobody && !comes_before(time, thread, best.time, threads_[best.thread])) continue;
      best = {number, time, thread.state == State::kAsleep};
    }
    return best;
  }
  void run(const Choice& choice) {
    Thread& thread = threads_[choice.thread];
    thread.state = State::kRunning;
    thread.time = choice.time;
    thread.deadline = kNever;
  }

  // The running thread stops at `time`.
  void stop(ThreadNumber number, Ticks time, State state, Ticks deadline = kNever) {
    Thread& thread = threads_[number];
    thread.time = time;
    thread.state = state;
    thread.deadline = deadline;
    core_free_[thread.core] = std::max(core_free_[thread.core], time);
    if (state == State::kGone) --core_threads_[thread.core];
  }
  // A thread that does not run is ready from `time` on, or from when it stopped, whatever is later.
  void wake(ThreadNumber number, Ticks time) {
    Thread& thread = threads_[number];
    thread.time = std::max(thread.time, time);
    thread.state = State::kReady;
    thread.deadline = kNever;
  }

  State state(ThreadNumber number) const { return threads_[number].state; }
  Ticks time(ThreadNumber number) const { return threads_[number].time; }
  CoreNumber core(ThreadNumber number) const { return threads_[number].core; }

 private:
  static constexpr Ticks kMostOffset = 256 * kCycle;

  struct Thread {
    Ticks time, deadline;
    std::uint64_t tie;
    CoreNumber core;
    State state;
  };
  // Of two that share a core the one that has waited longer comes first.
  static bool comes_before(Ticks time, const Thread& thread, Ticks other_time, const Thread& other) {
    if (time != other_time) return time < other_time;
    if (thread.time != other.time) return thread.time < other.time;
    return thread.tie < other.tie;
  }

  std::vector<Thread> threads_;
  Random random_;
  std::vector<Ticks> core_free_;  // when the last thread on it stopped
  std::vector<std::uint32_t> core_threads_;
};

}  // namespace heapyard::simulator
