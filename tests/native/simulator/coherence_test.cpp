// SPDX-License-Identifier: Apache-2.0
// The whole memory against counts that a textbook's MESI gives by hand.
#include <gtest/gtest.h>

#include <numeric>

#include "simulator/model/memory.hpp"
#include "simulator/record/false_sharing.hpp"

namespace {

using namespace heapyard::simulator;

class Coherence : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::uint64_t kAt = 0x10000;  // a line's first byte

  Coherence() : machine_(*find_machine(GetParam())), memory_(machine_, 8, false) {}

  std::uint32_t go(CoreNumber core, Kind kind, std::uint64_t address = kAt, std::uint32_t bytes = 8) {
    const std::uint32_t cycles = memory_.access({core, core, address, bytes, kind, 0x4000 + core, now_}, counts_);
    now_ += cycles;  // one after the other, so that none waits
    return cycles;
  }
  std::uint64_t operator[](Count count) const { return counts_[count]; }
  const SharedLine& line(std::uint64_t address = kAt) {
    for (const SharedLine& each : memory_.directory().all_shared())
      if (each.line == address / kLineBytes) return each;
    ADD_FAILURE() << "no two cores touched the line";
    return memory_.directory().all_shared().front();
  }

  const Machine& machine_;
  Memory memory_;
  Counts counts_;
  std::uint64_t now_ = 0;
};

TEST_P(Coherence, FirstTouchComesFromMemoryAndFaults) {
  EXPECT_EQ(go(0, Kind::kLoad), machine_.memory_cycles + machine_.page_fault_cycles);
  EXPECT_EQ(go(0, Kind::kLoad, kAt + 8), 0u) << "the same line";
  EXPECT_EQ(go(0, Kind::kStore, kAt + 16), 0u) << "exclusive: it becomes modified in silence";
  EXPECT_EQ(go(0, Kind::kLoad, kAt + 64), machine_.memory_cycles) << "the next line of the page";
  EXPECT_EQ((*this)[Count::kPageFaults], 1u);
  EXPECT_EQ((*this)[Count::kL3Misses], 2u);
  EXPECT_EQ((*this)[Count::kTransfers] + (*this)[Count::kInvalidations] + (*this)[Count::kUpgrades], 0u);
}

TEST_P(Coherence, PingPongOfWritersMovesTheLineEachTime) {
  constexpr int kRounds = 100;
  for (int i = 0; i < kRounds; ++i) go(i % 2, Kind::kStore);
  EXPECT_EQ((*this)[Count::kTransfers], kRounds - 1u);
  EXPECT_EQ((*this)[Count::kInvalidations], kRounds - 1u);
  EXPECT_EQ((*this)[Count::kCoherenceMisses], kRounds - 2u) << "the first access of each core is no coherence miss";
  EXPECT_EQ((*this)[Count::kUpgrades], 0u);
  EXPECT_EQ(go(0, Kind::kStore), machine_.peer_cycles);
  EXPECT_FALSE(is_false_sharing(line()));
}

TEST_P(Coherence, WriterAndReaderTakeTurns) {
  constexpr int kRounds = 50;
  for (int i = 0; i < kRounds; ++i) {
    go(0, Kind::kStore);
    go(1, Kind::kLoad);
  }
  EXPECT_EQ((*this)[Count::kTransfers], 1u * kRounds) << "each read finds the line modified";
  EXPECT_EQ((*this)[Count::kUpgrades], kRounds - 1u) << "each write but the first finds it shared";
  EXPECT_EQ((*this)[Count::kInvalidations], kRounds - 1u);
  EXPECT_EQ((*this)[Count::kCoherenceMisses], kRounds - 1u) << "each read but the first";
}

TEST_P(Coherence, ReadersShareInPeace) {
  for (int i = 0; i < 100; ++i)
    for (CoreNumber core = 0; core < 8; ++core) go(core, Kind::kLoad);
  EXPECT_EQ((*this)[Count::kL2Misses], 8u) << "one for each core";
  EXPECT_EQ((*this)[Count::kTransfers], 1u) << "the second reader finds it exclusive in the first one's cache";
  EXPECT_EQ((*this)[Count::kInvalidations] + (*this)[Count::kCoherenceMisses], 0u);
  go(3, Kind::kStore);
  EXPECT_EQ((*this)[Count::kUpgrades], 1u);
  EXPECT_EQ((*this)[Count::kInvalidations], 7u) << "all other copies go";
}

TEST_P(Coherence, SharedCounterIsHandedOver) {
  constexpr int kRounds = 25;
  for (int i = 0; i < kRounds; ++i)
    for (CoreNumber core = 0; core < 4; ++core) go(core, Kind::kAtomic);
  EXPECT_EQ((*this)[Count::kAtomics], 4u * kRounds);
  EXPECT_EQ((*this)[Count::kLockHandovers], 4u * kRounds - 1);
  EXPECT_EQ((*this)[Count::kTransfers], 4u * kRounds - 1);
  EXPECT_EQ((*this)[Count::kLoads] + (*this)[Count::kStores], 0u);
  EXPECT_EQ(go(3, Kind::kAtomic), machine_.atomic_cycles) << "its own line";
  EXPECT_EQ(go(0, Kind::kAtomic), machine_.atomic_cycles + machine_.peer_cycles);
}

TEST_P(Coherence, WhoComesWhileTheLineIsUnderWayWaits) {
  for (CoreNumber core = 0; core < 4; ++core) go(core, Kind::kAtomic);
  // All four at once: one transfer after the other.
  const std::uint64_t begin = now_;
  const std::uint32_t one = machine_.peer_cycles + machine_.atomic_cycles;
  for (CoreNumber core = 0; core < 4; ++core)
    EXPECT_EQ(memory_.access({core, core, kAt, 8, Kind::kAtomic, 0, begin}, counts_), (core + 1) * one);
  // Readers wait for the write, and not for each other once one has fetched the line from its owner.
  const std::uint64_t written = begin + 4 * one;
  for (CoreNumber core = 0; core < 3; ++core)
    EXPECT_LE(memory_.access({core, core, kAt, 8, Kind::kLoad, 0, written}, counts_), 2 * machine_.peer_cycles);
}

TEST_P(Coherence, PrefetcherFollowsAStreamWithinItsPage) {
  EXPECT_EQ(go(0, Kind::kLoad, kAt + 4096 + 0 * 64), machine_.memory_cycles + machine_.page_fault_cycles);
  EXPECT_EQ(go(0, Kind::kLoad, kAt + 4096 + 1 * 64), machine_.memory_cycles) << "two lines make a stream";
  EXPECT_EQ(go(0, Kind::kLoad, kAt + 4096 + 2 * 64), machine_.l2.cycles);
  EXPECT_EQ(go(0, Kind::kLoad, kAt + 4096 + 9 * 64), machine_.memory_cycles) << "not next to it";
  EXPECT_EQ((*this)[Count::kL3Misses], 4u) << "memory is asked all the same";
}

TEST_P(Coherence, UnpaddedCountersShareFalsely) {
  for (int i = 0; i < 50; ++i)
    for (CoreNumber core = 0; core < 4; ++core) go(core, Kind::kStore, kAt + core * 8);
  EXPECT_EQ((*this)[Count::kTransfers], 199u);
  const SharedLine& found = line();
  EXPECT_TRUE(is_false_sharing(found));
  EXPECT_EQ(found.false_transfers, 199u);
  ASSERT_EQ(found.writers.size(), 4u);
  for (const Writer& writer : found.writers) EXPECT_EQ(writer.bytes, std::uint64_t{0xff} << writer.thread * 8);
  // Until a second core comes nothing is recorded: the first store of core 0 is missing.
  const std::uint64_t stores =
      std::accumulate(found.writers.begin(), found.writers.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const Writer& writer) { return sum + writer.stores; });
  EXPECT_EQ(stores, 199u);
}

TEST_P(Coherence, PaddedCountersShareNothing) {
  for (int i = 0; i < 50; ++i)
    for (CoreNumber core = 0; core < 4; ++core) go(core, Kind::kStore, kAt + core * 64);
  EXPECT_EQ((*this)[Count::kL2Misses], 4u);
  EXPECT_EQ((*this)[Count::kTransfers] + (*this)[Count::kInvalidations] + (*this)[Count::kUpgrades], 0u);
  EXPECT_EQ(memory_.directory().all_shared().size(), 1u) << "index 0 is nobody's";
}

TEST_P(Coherence, AccessAcrossTwoLinesIsTwo) {
  go(0, Kind::kLoad, kAt + 60, 8);
  EXPECT_EQ((*this)[Count::kLoads], 2u);
  EXPECT_EQ((*this)[Count::kL2Misses], 2u);
}

TEST_P(Coherence, WhatL1LosesL2Has) {
  const std::uint64_t lines = machine_.l1.kib * 1024 / kLineBytes;
  for (std::uint64_t i = 0; i < lines + 64; ++i) go(0, Kind::kStore, kAt + i * 64);
  const std::uint64_t before = (*this)[Count::kL2Misses];
  EXPECT_EQ(go(0, Kind::kLoad), machine_.l2.cycles);
  EXPECT_EQ((*this)[Count::kL2Misses], before);
}

TEST_P(Coherence, ModifiedLineThatL2LostIsInL3) {
  const std::uint64_t lines = 2 * machine_.l2.kib * 1024 / kLineBytes;
  for (std::uint64_t i = 0; i < lines; ++i) go(0, Kind::kStore, kAt + i * 64);
  EXPECT_EQ(go(0, Kind::kLoad), machine_.l3.cycles);
  go(1, Kind::kLoad);
  EXPECT_EQ((*this)[Count::kTransfers], 1u) << "core 0 has it again, and alone";
}

TEST_P(Coherence, MemoryGivenBackFaultsAgain) {
  go(0, Kind::kStore);
  go(1, Kind::kStore);
  EXPECT_EQ(memory_.directory().resident_pages(), 1u);
  memory_.drop(kAt + 1, kAt + 4096);
  EXPECT_EQ(memory_.directory().resident_pages(), 1u) << "not the whole page";
  memory_.drop(kAt, kAt + 4096);
  EXPECT_EQ(memory_.directory().resident_pages(), 0u);
  go(1, Kind::kLoad);
  EXPECT_EQ((*this)[Count::kPageFaults], 2u);
}

INSTANTIATE_TEST_SUITE_P(Machines, Coherence,
                         testing::Values("two-socket-server", "desktop", "aarch64-server", "epyc-guest"),
                         [](const auto& test) {
                           std::string name;
                           for (const char* at = test.param; *at; ++at) name += *at == '-' ? '_' : *at;
                           return name;
                         });

TEST(Clusters, LineOfTheOtherClusterIsFar) {
  const Machine& machine = *find_machine("two-socket-server");
  Memory memory(machine, 8, false);
  Counts counts;
  memory.access({0, 0, 0x10000, 8, Kind::kStore, 0, 0}, counts);
  EXPECT_EQ(memory.cluster_of(3), 0u);
  EXPECT_EQ(memory.cluster_of(4), 1u);
  EXPECT_EQ(memory.access({4, 1, 0x10000, 8, Kind::kStore, 0, 0}, counts), machine.far_cycles);
  EXPECT_EQ(counts[Count::kFarTransfers], 1u);
  Memory spread(machine, 8, true);
  EXPECT_EQ(spread.cluster_of(0), 0u);
  EXPECT_EQ(spread.cluster_of(1), 1u);
}

}  // namespace
