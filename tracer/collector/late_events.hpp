// SPDX-License-Identifier: Apache-2.0
// Events whose counterpart is late: frees before their allocations, allocations before the free of what lived there.
//
// Idea: an address goes from thread to thread, and each thread's records are in its own ring; so what belongs together
// may come the other way round. It waits, for two seconds at most. Cost: O(1) expected; O(waiting) to give up.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "tracer/collector/live_blocks.hpp"

namespace heapyard::tracer {

class LateEvents {
 public:
  struct Allocation {
    Block block;
    std::uint64_t size;
  };

  bool any() const { return !early_frees_.empty() || !late_allocations_.empty(); }

  // `now`: microseconds.
  void add_free(std::uint64_t address, std::uint64_t stamp, std::uint64_t now) {
    early_frees_.emplace(address, Waiting{now, {{address, stamp, 0, 0, 0, 0}, 0}});
  }
  // A free that waits at this address, no longer: its stamp.
  [[gnu::always_inline]] inline std::optional<std::uint64_t> take_free(std::uint64_t address) {
    if (early_frees_.empty()) [[likely]]
      return {};
    const auto found = early_frees_.find(address);
    if (found == early_frees_.end()) return {};
    const std::uint64_t stamp = found->second.event.block.stamp;
    early_frees_.erase(found);
    return stamp;
  }

  void add_allocation(const Block& block, std::uint64_t size, std::uint64_t now) {
    late_allocations_.emplace(block.address, Waiting{now, {block, size}});
  }
  // The oldest one that waits at this address, no longer.
  [[gnu::always_inline]] inline std::optional<Allocation> take_allocation(std::uint64_t address) {
    if (late_allocations_.empty()) [[likely]]
      return {};
    const auto [first, last] = late_allocations_.equal_range(address);
    if (first == last) return {};
    auto oldest = first;
    for (auto at = first; at != last; ++at) {
      if (at->second.event.block.stamp < oldest->second.event.block.stamp) oldest = at;
    }
    const Allocation found = oldest->second.event;
    late_allocations_.erase(oldest);
    return found;
  }

  // Those that have waited too long, or all of them, no longer. `lost_allocation()`: of each free; `lost_free(late)`:
  // of what lived at the address of each allocation.
  template <class LostAllocation, class LostFree>
  void give_up(std::uint64_t now, bool all, LostAllocation lost_allocation, LostFree lost_free) {
    std::erase_if(early_frees_, [&](const auto& entry) {
      if (!all && now < entry.second.since + kPatience) return false;
      lost_allocation();
      return true;
    });
    std::erase_if(late_allocations_, [&](const auto& entry) {
      if (!all && now < entry.second.since + kPatience) return false;
      lost_free(entry.second.event);
      return true;
    });
  }

 private:
  static constexpr std::uint64_t kPatience = 2'000'000;  // microseconds
  struct Waiting {                                       // both kinds are one, so that their tables are one type
    std::uint64_t since;
    Allocation event;  // of a free its address and stamp
  };

  std::unordered_multimap<std::uint64_t, Waiting> late_allocations_, early_frees_;
};

}  // namespace heapyard::tracer
