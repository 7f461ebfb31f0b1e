// SPDX-License-Identifier: Apache-2.0
// The operations of one thread, and when it is its turn.
//
// Idea: who goes when follows from the seed, or from the order of a file. So each thread knows its own turns without
// asking the others, and the same operations can be printed. Cost: O(1) an operation; by turns, O(threads). Threads:
// each has its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "generator.hpp"
#include "operation.hpp"

namespace heapyard::fuzz {

struct Step {
  Operation operation;
  std::uint64_t turn;  // of all threads' turns, from 0; without turns, the number of this thread's operation
  bool first, last;    // of its turn
};

struct Plan {
  std::uint64_t seed = 1, operations = 0;
  unsigned threads = 1;
  bool turns = false;
  Freedom freedom;
  bool is_file = false;
  std::span<const Operation> file;
};

class Script {
 public:
  Script(const Plan& plan, unsigned thread)
      : plan_(plan), thread_(thread), generator_(plan.seed, thread, plan.freedom) {}

  std::optional<Step> next() { return plan_.is_file ? next_of_file() : next_at_random(); }

 private:
  std::optional<Step> next_of_file() {
    while (at_ < plan_.file.size() && plan_.file[at_].thread != thread_) ++at_;
    if (at_ == plan_.file.size()) return std::nullopt;
    const std::uint64_t turn = at_++;
    return Step{plan_.file[turn], turn, true, true};
  }

  std::optional<Step> next_at_random() {
    if (!plan_.turns) {
      if (at_ == plan_.operations / plan_.threads) return std::nullopt;
      const std::uint64_t turn = at_++;
      return Step{generator_.next(), turn, true, true};
    }
    const bool first = left_ == 0;
    if (first && !take_turn()) return std::nullopt;
    --left_;
    return Step{generator_.next(), turn_ - 1, first, left_ == 0};
  }

  // This thread's next turn: counts those of all.
  bool take_turn() {
    constexpr std::uint64_t kStream = 1000, kMost = 64;  // a stream that is no thread's
    for (;;) {
      Random random(mix(plan_.seed) + turn_++, kStream);
      const std::uint64_t thread = random.below(plan_.threads);
      left_ = 1 + random.below(kMost);
      at_ += left_;
      if (at_ > plan_.operations) return false;
      if (thread == thread_) return true;
    }
  }

  Plan plan_;
  unsigned thread_;
  Generator generator_;
  std::uint64_t at_ = 0;  // operations so far: of all by turns, else of this thread; or the place in the file
  std::uint64_t turn_ = 0, left_ = 0;  // turns so far; operations that are left of this one
};

}  // namespace heapyard::fuzz
