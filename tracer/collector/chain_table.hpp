// SPDX-License-Identifier: Apache-2.0
// The call chains that the program has told, by the numbers that it has for them.
//
// Idea: a thread tells a chain by what differs from the one that its ring told before, so that one is kept per ring, as
// nodes of the call tree. Numbers of different chains may end at the same node, where there is no room for more: then
// they are one chain here. Cost: O(frames told) a chain, O(1) a look-up.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/modules.hpp"

namespace heapyard::tracer {

class ChainTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void use_rings(std::uint32_t count) {
    if (count > told_.size()) told_.resize(count);
  }
  // What follows in this ring is of another thread.
  void begin_thread(std::uint32_t ring) { told_[ring].clear(); }

  // A record of a chain (Kind::kChain). The chain is in `accounts` from then on.
  void add(std::uint32_t ring, const std::uint64_t* words, Modules& modules, Accounts& accounts);

  // The chain of this number in the accounts, or kNone.
  std::uint32_t of(std::uint64_t number) const { return number < by_number_.size() ? by_number_[number] : kNone; }
  // Chains longer than the limit.
  std::uint64_t cut() const { return cut_; }

 private:
  std::vector<std::uint32_t> by_number_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_node_;
  std::vector<std::vector<std::uint32_t>> told_;  // by ring: nodes of the chain told last, outermost first
  std::uint64_t cut_ = 0;
};

}  // namespace heapyard::tracer
