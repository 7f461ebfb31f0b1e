// SPDX-License-Identifier: Apache-2.0
// The memory of the simulated machine: private L1 and L2 of each core, an L3 of each cluster, MESI by a directory.
//
// Write-back and write-allocate everywhere. L2 includes L1. No data is held, only who has which line in which state.
// Not thread-safe: whoever asks holds the turn.
#pragma once

#include <cstdint>
#include <vector>

#include "cache.hpp"
#include "counts.hpp"
#include "directory.hpp"
#include "machine.hpp"

namespace heapyard::simulator {

enum class Kind : std::uint8_t { kLoad, kStore, kAtomic };  // atomic: load and store at once

struct Access {
  CoreNumber core;
  std::uint32_t thread;
  std::uint64_t address;
  std::uint32_t bytes;  // at most a line's
  Kind kind;
  std::uint64_t code;   // address of the instruction
  std::uint64_t cycle;  // when it begins
};

class Memory {
 public:
  // `spread`: neighbouring cores lie in different clusters; else a cluster is filled before the next one.
  Memory(const Machine& machine, std::uint32_t cores, bool spread);

  // Cycles that the access takes beyond a hit in L1, which the instruction's own cycles contain; counts it. A line goes
  // from core to core one way at a time: who comes while it is under way waits for its arrival. O(1) when it hits,
  // O(ways + holders) when not.
  std::uint32_t access(const Access& access, Counts& counts) {
    const Line line = access.address / kLineBytes;
    if (access.address % kLineBytes + access.bytes > kLineBytes) [[unlikely]]
      return split(access, counts);
    Slot* const slot = cores_[access.core].l1.use(line);
    if (access.kind == Kind::kLoad) {
      ++counts[Count::kLoads];
      if (slot) return 0;
    } else if (access.kind == Kind::kStore) {
      ++counts[Count::kStores];
      if (slot && (*slot & (kWritable | kWatched)) == kWritable) {
        *slot |= kDirty;
        return 0;
      }
    }
    return beyond_l1(access, line, slot, counts);
  }

  // Counts an access that the core's store buffer answers, or a store that leaves it with one before it. O(writers).
  void forward(const Access& access, Counts& counts);

  // The program gave pages back: addresses [low, high). What is touched there next faults. O(pages that were touched).
  void drop(std::uint64_t low, std::uint64_t high);

  const Directory& directory() const { return directory_; }
  void forget_line_counts() { directory_.forget_counts(); }
  std::uint32_t cluster_of(CoreNumber core) const { return spread_ ? core % clusters() : core * clusters() / cores(); }
  std::uint32_t cores() const { return static_cast<std::uint32_t>(cores_.size()); }

 private:
  struct Core {
    Cache l1, l2;
  };
  std::uint32_t clusters() const { return static_cast<std::uint32_t>(l3_.size()); }

  std::uint32_t split(const Access& access, Counts& counts);
  std::uint32_t beyond_l1(const Access& access, Line line, Slot* slot, Counts& counts);
  std::uint32_t fetch_alone(const Access& access, Line line, Counts& counts);
  bool continues_stream(CoreNumber core, Line line);
  std::uint32_t fetch_shared(const Access& access, SharedLine& shared, Counts& counts, bool& alone);
  std::uint32_t upgrade(const Access& access, SharedLine& shared, Counts& counts);
  std::uint32_t take_from_holders(const Access& access, SharedLine& shared, Counts& counts);
  std::uint32_t distance(CoreNumber from, CoreNumber to) const;
  void share(LineEntry& entry, Line line);
  void install(CoreNumber core, Line line, Slot flags);
  void install_l1(CoreNumber core, Slot slot);
  void evicted_from_l2(CoreNumber core, Slot slot);
  void install_l3(std::uint32_t cluster, Line line);
  Slot take(CoreNumber core, Line line);      // out of both private caches
  bool withdraw(CoreNumber core, Line line);  // the right to write; whether it was modified
  void left(CoreNumber core, Line line);      // tells the directory
  void note_atomic(const Access& access, LineEntry& entry, Counts& counts);
  static void note_writer(const Access& access, SharedLine& shared);
  static void note_code(const Access& access, SharedLine& shared);

  const Machine& machine_;
  bool spread_;
  std::vector<Core> cores_;
  std::vector<Cache> l3_;  // of each cluster
  Directory directory_;
};

}  // namespace heapyard::simulator
