// SPDX-License-Identifier: Apache-2.0
// The parts of the kit that sessions stand on: rings, logs, shares, operations.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "mutators/kit/operation_log.hpp"
#include "mutators/kit/operations.hpp"
#include "mutators/kit/result.hpp"
#include "mutators/kit/spsc_ring.hpp"
#include "mutators/kit/worker.hpp"

namespace heapyard::kit {
namespace {

TEST(SpscRing, HoldsItsCapacityAndNoMore) {
  Arena arena;
  arena.reserve(1 << 16);
  SpscRing<int> ring;
  ring.prepare(arena, 4);
  int taken;
  EXPECT_FALSE(ring.pop(taken));
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
    EXPECT_FALSE(ring.push(9));
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ring.pop(taken));
      EXPECT_EQ(taken, i);
    }
    EXPECT_FALSE(ring.pop(taken));
  }
}

TEST(SpscRing, KeepsTheOrderBetweenThreads) {
  Arena arena;
  arena.reserve(1 << 16);
  SpscRing<std::uint64_t> ring;
  ring.prepare(arena, 8);
  constexpr std::uint64_t kItems = 100'000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kItems; ++i)
      while (!ring.push(i)) std::this_thread::yield();
  });
  for (std::uint64_t i = 0; i < kItems; ++i) {
    std::uint64_t item;
    while (!ring.pop(item)) std::this_thread::yield();
    if (item != i) ADD_FAILURE() << item << " instead of " << i;
  }
  producer.join();
}

TEST(OperationLog, RecordsOfManyBlocksAdjoin) {
  OperationLog log;
  log.reserve();
  for (std::uint64_t i = 0; i < 20'000; ++i) log.add(i % 2 ? Call::kFree : Call::kMalloc, i, 3 * i);
  ASSERT_EQ(log.records().size(), 20'000u);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_EQ(log.records()[i].object, i);
    ASSERT_EQ(log.records()[i].size, 3 * i);
  }
  EXPECT_GE(log.resident_bytes(), 20'000 * sizeof(OperationLog::Record));
}

TEST(Share, PartsAddUpAndDifferByOneAtMost) {
  for (std::uint64_t all = 0; all < 50; ++all) {
    for (std::size_t parts = 1; parts < 9; ++parts) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        sum += share(all, parts, i);
        EXPECT_LE(share(all, parts, 0) - share(all, parts, i), 1u);
      }
      EXPECT_EQ(sum, all);
    }
  }
}

TEST(Operations, CountEachCallAndContinueATally) {
  Worker worker;
  const auto work = [&] {
    Operations<NoObserver> heap(worker, Phase::kMeasured);
    void* grown = heap.reallocate(nullptr, 10, 1);
    grown = heap.reallocate(grown, 100, 1);
    heap.release(grown, 1);
    heap.release(heap.allocate_zeroed(5, 2), 2);
    void* const aligned = heap.allocate_aligned(256, 7, 3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 256, 0u);
    heap.release(aligned, 3);
    heap.release(heap.allocate(20, 4), 4);
  };
  work();
  const Tally once = worker.tally[static_cast<std::size_t>(Phase::kMeasured)];
  EXPECT_EQ(once.allocations, 4u);
  EXPECT_EQ(once.reallocations, 1u);
  EXPECT_EQ(once.releases, 4u);
  EXPECT_EQ(once.bytes, 10u + 100 + 5 + 7 + 20);
  EXPECT_EQ(once.operations(), 9u);
  work();
  EXPECT_EQ(worker.tally[static_cast<std::size_t>(Phase::kMeasured)].allocations, 8u);
  EXPECT_EQ(worker.tally[static_cast<std::size_t>(Phase::kBefore)].allocations, 0u);
}

TEST(Operations, LatenciesAreTakenOfEveryKindOfCallAlike) {
  Worker worker;
  Latencies latencies{};
  worker.latencies = &latencies;
  worker.latency_period = 2;
  {
    Operations<LatencyObserver> heap(worker, Phase::kMeasured);
    for (int i = 0; i < 100; ++i) heap.release(heap.allocate(8, 0), 0);
  }
  EXPECT_EQ(latencies.of[static_cast<std::size_t>(Call::kMalloc)].total(), 50u);
  EXPECT_EQ(latencies.of[static_cast<std::size_t>(Call::kFree)].total(), 50u);
}

}  // namespace
}  // namespace heapyard::kit
