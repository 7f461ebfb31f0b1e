// SPDX-License-Identifier: Apache-2.0
// Loads that one core waits for: it goes on beside them until its reorder buffer is full, or until it uses what one
// brings.
//
// Which registers an instruction reads is not known here. A use is an access to an address close to a value that is
// under way: a pointer that is followed. O(loads under way), at most kMost.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace heapyard::simulator {

class LoadWindow {
 public:
  bool is_empty() const { return count_ == 0; }

  // When an access to `address` may begin.
  std::uint64_t ready(std::uint64_t address, std::uint64_t now) const {
    std::uint64_t when = now;
    for (std::size_t i = 0; i < count_; ++i)
      if (address - loads_[i].value < kObject) when = std::max(when, loads_[i].done);
    return when;
  }

  // A load that ends at `done` and brings `value`; `limit` is the number of the instruction that cannot begin before.
  // When the core goes on: `now`, or when one of the others has ended, if there are too many.
  std::uint64_t put(std::uint64_t value, std::uint64_t done, std::uint64_t limit, std::uint64_t now) {
    if (count_ == kMost) now = pop(now);
    loads_[count_++] = {value, done, limit};
    return now;
  }

  // The core comes to `instruction`. When it can go on.
  std::uint64_t reach(std::uint64_t instruction, std::uint64_t now) {
    while (count_ > 0 && (loads_[0].limit <= instruction || loads_[0].done <= now)) now = pop(now);
    return now;
  }

  // When all have ended, `now` at the earliest.
  std::uint64_t drain(std::uint64_t now) {
    while (count_ > 0) now = pop(now);
    return now;
  }

 private:
  static constexpr std::size_t kMost = 16;       // line fill buffers: 10 to 24 in the machines of machine.cpp
  static constexpr std::uint64_t kObject = 256;  // bytes behind a pointer that are taken for what it points to

  struct Load {
    std::uint64_t value, done, limit;
  };

  std::uint64_t pop(std::uint64_t now) {
    now = std::max(now, loads_[0].done);
    std::copy(loads_.begin() + 1, loads_.begin() + static_cast<std::ptrdiff_t>(count_), loads_.begin());
    --count_;
    return now;
  }

  std::array<Load, kMost> loads_;
  std::size_t count_ = 0;
};

}  // namespace heapyard::simulator
