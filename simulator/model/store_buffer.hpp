// SPDX-License-Identifier: Apache-2.0
// The store buffer of one core: a store that misses does not hold the core up, but those behind it, which leave in
// order.
//
// Stores to a line that the core waits for leave with it, and loads from there are answered by the buffer. The core
// stops when the buffer is full; an atomic and a system call wait until it is empty. O(stores in it).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "cache.hpp"

namespace heapyard::simulator {

class StoreBuffer {
 public:
  // Does a store to `line` wait at time `now`?
  bool holds(Line line, std::uint64_t now) const {
    if (is_empty(now)) return false;
    return std::any_of(stores_.begin(), stores_.end(),
                       [&](const Store& store) { return store.line == line && store.leaves > now; });
  }
  bool is_empty(std::uint64_t now) const { return stores_.empty() || stores_.back().leaves <= now; }

  // A store whose line is there at time `arrives`. When the core goes on: `now`, or when there is room.
  std::uint64_t put(Line line, std::uint64_t now, std::uint64_t arrives, std::size_t room) {
    while (!stores_.empty() && stores_.front().leaves <= now) stores_.pop_front();
    if (stores_.size() >= room) {
      now = stores_.front().leaves;
      stores_.pop_front();
    }
    const std::uint64_t before = stores_.empty() ? 0 : stores_.back().leaves;
    stores_.push_back({line, std::max({before, now, arrives})});
    return now;
  }

  // When all have left, `now` at the earliest.
  std::uint64_t drain(std::uint64_t now) {
    if (!stores_.empty()) now = std::max(now, stores_.back().leaves);
    stores_.clear();
    return now;
  }

 private:
  struct Store {
    Line line;
    std::uint64_t leaves;
  };
  std::deque<Store> stores_;
};

}  // namespace heapyard::simulator
