// SPDX-License-Identifier: Apache-2.0
// The program's threads: by the kernel's numbers, by the numbers in its records, and by the ring at hand.
//
// Idea: a trace has room for so many; the last row stands for all others. Cost: O(1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/tasks.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

class ThreadTable {
 public:
  // `most`: rows.
  explicit ThreadTable(std::size_t most) : most_(std::min<std::size_t>(most, 65536)) {}

  void use_rings(std::uint32_t count) {
    if (count > of_ring_.size()) of_ring_.resize(count);
  }
  // What follows in this ring is of this thread: a word as Kind::kThread has it.
  void begin(std::uint32_t ring, std::uint64_t owner, Tasks& tasks, std::vector<Thread>& threads) {
    const auto id = static_cast<std::uint32_t>(owner);
    const auto number = static_cast<std::uint32_t>(owner >> 32) % Owner::kThreads;
    tasks.begun(id);
    const std::size_t known = threads.size();
    const auto [found, fresh] = by_id_.try_emplace(id, static_cast<std::uint16_t>(std::min(known, most_ - 1)));
    if (fresh && known < most_) {
      Thread thread;
      thread.id = known < most_ - 1 ? id : 0;
      thread.name = known < most_ - 1 ? tasks.name_of(id) : "(all others)";
      threads.push_back(thread);
    }
    of_ring_[ring] = found->second;
    if (number >= by_number_.size()) by_number_.resize(number + 1);
    by_number_[number] = found->second;
  }

  std::uint16_t of_ring(std::uint32_t ring) const { return of_ring_[ring]; }
  std::uint16_t of_number(std::uint32_t number) const {
    return number < by_number_.size() ? by_number_[number] : std::uint16_t{0};
  }

 private:
  std::size_t most_;
  std::unordered_map<std::uint32_t, std::uint16_t> by_id_;
  std::vector<std::uint16_t> by_number_, of_ring_;
};

}  // namespace heapyard::tracer
