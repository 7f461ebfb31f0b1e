// SPDX-License-Identifier: Apache-2.0
// The machines that can be simulated: sizes and latencies of real ones. docs/simulation.md names the source of each
// figure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace heapyard::simulator {

struct CacheShape {
  std::uint32_t kib, ways;
  std::uint32_t cycles;  // from the core to data in this cache
};

// Cores come in clusters; each shares one L3. A socket of a server is a cluster, and so is a core complex of a desktop.
struct Machine {
  std::string_view name, title;
  std::uint32_t cores, clusters;
  double hertz;
  double cycles_per_instruction;  // of everything but what the caches below L1 and atomics take
  CacheShape l1, l2;              // of one core
  CacheShape l3;                  // kib: per core of the cluster
  bool is_l3_inclusive;           // of its cores' caches; else it takes what they evict
  std::uint32_t peer_cycles;      // to a line in the private cache of a core of the same cluster
  std::uint32_t far_cycles;       // to a line in a cache of another cluster
  std::uint32_t memory_cycles;
  std::uint32_t atomic_cycles;       // a locked instruction on a line that the core owns
  std::uint32_t reorder_buffer;      // instructions that may be under way
  std::uint32_t store_buffer;        // stores that may wait for their lines
  std::uint32_t system_call_cycles;  // there and back
  std::uint32_t wake_cycles;         // from a futex wake to the other thread's first instruction
  std::uint32_t page_fault_cycles;   // first touch of a page of 4 KiB
};

inline constexpr std::uint32_t kMostCores = 128;

std::span<const Machine> machines();
// nullptr: there is none of this name.
const Machine* find_machine(std::string_view name);

}  // namespace heapyard::simulator
