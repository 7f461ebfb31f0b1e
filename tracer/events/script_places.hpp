// SPDX-License-Identifier: Apache-2.0
// Numbers for places of a script, function and line, by which its frames stand in call chains.
//
// Idea: a table that is only ever added to, without a lock. An instruction is looked up by its address and by what its
// function is called; where it is new, its line is asked for, and the place looked up that many instructions share. The
// number of a place is where it lies in the table. Cost: O(1); O(instructions of the function) for a new one. Threads:
// any. Errors: full: 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mapping.hpp"

namespace heapyard::tracer {

class ScriptPlaces {
 public:
  struct Place {
    std::atomic<std::uint64_t> hash;     // 0: free
    std::atomic<std::uint32_t> place;    // of an instruction: its place's number; 0: not known yet
    std::atomic<std::uint32_t> session;  // of a place: that has been told its name
  };

  bool prepare() {
    if (table_ == nullptr) table_ = static_cast<Place*>(map_sparse(kPlaces * sizeof(Place)));
    return table_ != nullptr;
  }

  // The entry of a hash, which is not 0; null where there is no room.
  Place* at(std::uint64_t hash) {
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Place& entry = table_[(hash + step) % kPlaces];
      std::uint64_t there = entry.hash.load(std::memory_order_relaxed);
      if (there == 0 && entry.hash.compare_exchange_strong(there, hash)) there = hash;
      if (there == hash) return &entry;
    }
    return nullptr;
  }
  std::uint32_t number_of(const Place* entry) const { return static_cast<std::uint32_t>(entry - table_) + 1; }

 private:
  static constexpr std::uint64_t kPlaces = 1u << 17, kSteps = 64;
  Place* table_ = nullptr;
};

}  // namespace heapyard::tracer
