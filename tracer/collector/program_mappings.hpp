// SPDX-License-Identifier: Apache-2.0
// What the program has mapped by itself, and by which call chain.
//
// Idea: intervals of addresses that do not overlap. A new mapping takes what it covers from older ones, as the kernel
// does. Cost: O(log intervals), and O(those it covers). Threads: the collector's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class ProgramMappings {
 public:
  // In place of a chain: for an allocator that tells of its blocks.
  static constexpr std::uint32_t kAllocators = ~std::uint32_t{0};

  // `bytes`: as the program asked; `chain`: of the accounts. What comes beyond so many intervals is left out.
  void add(std::uint64_t begin, std::uint64_t bytes, std::uint32_t chain) {
    const std::uint64_t end = end_of(begin, bytes);
    remove(begin, bytes);
    if (end > begin && by_begin_.size() < kMost) by_begin_.emplace(begin, Mapping{end, chain});
  }

  void remove(std::uint64_t begin, std::uint64_t bytes) {
    const std::uint64_t end = end_of(begin, bytes);
    if (end <= begin) return;
    for (auto at = first_behind(begin); at != by_begin_.end() && at->first < end;) {
      const std::uint64_t first = at->first;
      const Mapping whole = at->second;
      at = by_begin_.erase(at);
      if (first < begin) by_begin_.emplace(first, Mapping{begin, whole.chain});
      if (whole.end > end) by_begin_.emplace(end, Mapping{whole.end, whole.chain});
    }
  }

  // Calls work(begin, end, chain) for what lies in [begin, end).
  template <class Work>
  void each_within(std::uint64_t begin, std::uint64_t end, Work work) const {
    for (auto at = first_behind(begin); at != by_begin_.end() && at->first < end; ++at)
      work(at->first < begin ? begin : at->first, at->second.end > end ? end : at->second.end, at->second.chain);
  }

 private:
  struct Mapping {
    std::uint64_t end;
    std::uint32_t chain;
  };
  using ByBegin = std::map<std::uint64_t, Mapping>;

  static constexpr std::size_t kMost = 1u << 17;

  static std::uint64_t end_of(std::uint64_t begin, std::uint64_t bytes) {
    return begin + ((bytes + kPage - 1) & ~std::uint64_t{kPage - 1});
  }

  // The first that ends behind an address.
  ByBegin::const_iterator first_behind(std::uint64_t address) const {
    auto at = by_begin_.upper_bound(address);
    if (at != by_begin_.begin() && std::prev(at)->second.end > address) --at;
    return at;
  }

  ByBegin by_begin_;
};

}  // namespace heapyard::tracer
