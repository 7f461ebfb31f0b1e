// SPDX-License-Identifier: Apache-2.0
// Numbers for call chains, small enough to be part of a word.
//
// Idea: a chain's number is the place of its hash in a table that is only ever added to, without a lock: the first
// empty place of its line of the first level, each level four times as large as the one before, in which there is one,
// or twice once it is large. So few chains touch little memory, and whether a chain is new is a line in each of a few
// levels. Threads: nothing is taken out, so all find the same first empty place. Cost: O(levels in use), a line each.
// Errors: full: 0; the caller counts it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mapping.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

class ChainNumbers {
 public:
  // False: there is no address space.
  bool prepare() {
    if (hashes_ != nullptr) return true;
    hashes_ = static_cast<std::atomic<std::uint64_t>*>(map_sparse(Owner::kChains * sizeof *hashes_));
    return hashes_ != nullptr;
  }

  // The number of `hash` will be asked for: where it may be is fetched from memory meanwhile.
  [[gnu::always_inline]] void expect(std::uint64_t hash) const {
    const std::uint64_t last = last_level_.load(std::memory_order_relaxed);
    for (std::uint64_t level = kFirst; level <= last; level = after(level))
      __builtin_prefetch(&hashes_[line_in(level, hash)]);
  }
  // From 1 on. `hash`: not 0.
  std::uint64_t of(std::uint64_t hash) {
    const std::uint64_t last = last_level_.load(std::memory_order_relaxed);
    for (std::uint64_t level = kFirst; level < Owner::kChains; level = after(level)) {
      if (level > last) last_level_.store(level, std::memory_order_relaxed);
      const std::uint64_t line = line_in(level, hash);
      for (std::uint64_t at = line; at < line + kLine; ++at) {
        std::uint64_t there = hashes_[at].load(std::memory_order_relaxed);
        if (there == 0 && hashes_[at].compare_exchange_strong(there, hash)) there = hash;
        if (there == hash) return at;
      }
    }
    return 0;
  }

 private:
  static constexpr std::uint64_t kFirst = 1 << 10, kLarge = 1 << 16, kLine = 8;
  static std::uint64_t after(std::uint64_t level) { return level < kLarge ? level * 4 : level * 2; }
  // The first level, of kFirst places, begins at kFirst; a level of n places at n. What lies between is no number.
  static std::uint64_t line_in(std::uint64_t level, std::uint64_t hash) {
    return level + (hash & (level - 1) & ~(kLine - 1));
  }
  std::atomic<std::uint64_t>* hashes_ = nullptr;
  std::atomic<std::uint64_t> last_level_{kFirst};  // in use; may be told too low: for looking ahead only
};

}  // namespace heapyard::tracer
