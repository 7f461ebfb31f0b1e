// SPDX-License-Identifier: Apache-2.0
// The call chains of which a thread has told the collector, by number.
//
// Idea: a bit for each number there may be. Chains that come late have the higher numbers (chain_numbers.hpp), so few
// chains touch little memory. Cost: O(1); to forget, O(highest number / 64). All zero at first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

class ToldChains {
 public:
  bool has(std::uint64_t number) const { return (words_[number / 64] >> number % 64 & 1) != 0; }
  void add(std::uint64_t number) {
    words_[number / 64] |= std::uint64_t{1} << number % 64;
    highest_ = std::max(highest_, number);
  }
  void forget() {
    std::fill_n(words_, highest_ / 64 + 1, 0);
    highest_ = 0;
  }

 private:
  std::uint64_t highest_;
  std::uint64_t words_[Owner::kChains / 64];
};

}  // namespace heapyard::tracer
