// SPDX-License-Identifier: Apache-2.0
// Rows of the whole process over time: live and resident bytes, allocations, frees.
//
// Idea: a row where live bytes, their extremes since the last row, or resident ones have changed by 1 %. Cost: O(1) a
// look.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/bytes.hpp"

namespace heapyard::tracer {

class Totals {
 public:
  void note_resident(std::int64_t bytes) { resident_ = bytes; }

  bool changed(const Accounts& accounts) const {
    return differs(accounts.high, bytes_) || differs(accounts.low, bytes_) || differs(resident_, resident_recorded_);
  }
  void add_row(std::uint64_t now, Accounts& accounts) {
    rows_.number(now - last_);
    rows_.number(not_negative(accounts.bytes));
    rows_.number(not_negative(accounts.bytes - accounts.low));
    rows_.number(not_negative(accounts.high - accounts.bytes));
    rows_.number(static_cast<std::uint64_t>(std::max(0.0, accounts.blocks) + 0.5));
    rows_.number(not_negative(resident_));
    rows_.number(static_cast<std::uint64_t>(accounts.allocations + 0.5));
    rows_.number(static_cast<std::uint64_t>(std::max(0.0, accounts.frees) + 0.5));
    last_ = now;
    bytes_ = accounts.low = accounts.high = accounts.bytes;
    resident_recorded_ = resident_;
  }

  const Bytes& pending() const { return rows_; }
  // When the first of the pending rows counts from, and when the last one is of. Microseconds.
  std::uint64_t from() const { return from_; }
  std::uint64_t last() const { return last_; }
  // The pending rows are in the file.
  void written() {
    from_ = last_;
    rows_.clear();
  }

 private:
  static bool differs(std::int64_t now, std::int64_t then) {
    return std::abs(now - then) > std::max<std::int64_t>(then / 100, 4096);
  }
  static std::uint64_t not_negative(std::int64_t value) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value));
  }

  Bytes rows_;
  std::uint64_t last_ = 0, from_ = 0;
  std::int64_t bytes_ = 0, resident_ = 0, resident_recorded_ = 0;
};

}  // namespace heapyard::tracer
