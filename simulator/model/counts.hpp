// SPDX-License-Identifier: Apache-2.0
// What is counted, for each thread; FORMAT.md defines each.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heapyard::simulator {

enum class Count : std::uint8_t {
  kInstructions,
  kLoads,
  kStores,
  kAtomics,
  kL1Misses,
  kL2Misses,
  kL3Misses,
  kCoherenceMisses,
  kUpgrades,
  kTransfers,
  kFarTransfers,
  kInvalidations,
  kLockHandovers,
  kFutexWaits,
  kSystemCalls,
  kPageFaults,
  kWaitingTicks,  // the record tells it in seconds, under a name of its own
};
// As the record has them; the last count has none.
inline constexpr std::array<std::string_view, 16> kCountNames{
    "instructions",     "loads",      "stores",    "atomics",       "l1_misses",     "l2_misses",      "l3_misses",
    "coherence_misses", "upgrades",   "transfers", "far_transfers", "invalidations", "lock_handovers", "futex_waits",
    "system_calls",     "page_faults"};

class Counts {
 public:
  std::uint64_t& operator[](Count count) { return all_[static_cast<std::size_t>(count)]; }
  std::uint64_t operator[](Count count) const { return all_[static_cast<std::size_t>(count)]; }
  std::uint64_t accesses() const { return (*this)[Count::kLoads] + (*this)[Count::kStores] + (*this)[Count::kAtomics]; }
  // Accesses for which another core's cache had a say.
  std::uint64_t met_others() const {
    return (*this)[Count::kTransfers] + (*this)[Count::kUpgrades] + (*this)[Count::kCoherenceMisses];
  }
  Counts& operator+=(const Counts& other) {
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] += other.all_[i];
    return *this;
  }
  Counts& operator-=(const Counts& other) {
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] -= other.all_[i];
    return *this;
  }

 private:
  std::array<std::uint64_t, kCountNames.size() + 1> all_{};
};

}  // namespace heapyard::simulator
