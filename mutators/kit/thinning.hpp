// SPDX-License-Identifier: Apache-2.0
// Which looks of a run of unknown length are kept: all of them, until there are more than have room; then every other
// one, and so on. What is kept is spread evenly over the run. Amortised O(1). No heap; signal handlers may use it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapyard::kit {

template <std::size_t kMost>
class Thinning {
 public:
  // Whether the next look is kept; its place is then stored() - 1. `move(to, from)` moves one that stays.
  template <class Move>
  bool keeps_next(Move move) {
    if (seen_++ % stride_ != 0) return false;
    if (stored_ == kMost) {
      for (std::size_t i = 0; i < kMost / 2; ++i) move(i, 2 * i);
      stored_ = kMost / 2;
      stride_ *= 2;
      if ((seen_ - 1) % stride_ != 0) return false;
    }
    ++stored_;
    return true;
  }
  std::size_t stored() const { return stored_; }
  std::uint64_t seen() const { return seen_; }

 private:
  std::size_t stored_ = 0;
  std::uint64_t stride_ = 1, seen_ = 0;
};

}  // namespace heapyard::kit
