// SPDX-License-Identifier: Apache-2.0
// The kit every mutator stands on: random numbers, histograms, bookkeeping memory, clocks.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "mutators/kit/arena.hpp"
#include "mutators/kit/cycle_clock.hpp"
#include "mutators/kit/latency_histogram.hpp"
#include "mutators/kit/process_memory.hpp"

namespace heapyard::kit {
namespace {

TEST(Random, SameSeedSameSequence) {
  Random a(7, 3), b(7, 3);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a.next(), b.next());
}

// The published ACDC gives thread i of seed r the stream of thread i - 1 of seed r + 1, and seed 0 gives only zeros.
TEST(Random, NoTwoStreamsOfNeighbouringSeedsShareValues) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 32; ++seed)
    for (std::uint64_t stream = 0; stream < 32; ++stream) {
      Random random(seed, stream);
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(seen.insert(random.next()).second) << seed << ' ' << stream;
    }
}

TEST(Random, BetweenReachesBothEndsAndNothingElse) {
  Random random(1);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) {
    const std::uint64_t value = random.between(10, 16);
    ASSERT_GE(value, 10u);
    ASSERT_LE(value, 16u);
    ++counts[value - 10];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);  // five standard deviations
}

TEST(Random, PercentIsExactAtTheEnds) {
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_FALSE(random.percent(0));
    ASSERT_TRUE(random.percent(100));
  }
}

TEST(LatencyHistogram, EveryValueLiesInItsBucket) {
  Random random(5);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    const std::size_t bucket = LatencyHistogram::bucket(value);
    ASSERT_LT(bucket, LatencyHistogram::kBuckets);
    ASSERT_LE(value, LatencyHistogram::upper(bucket));
    if (bucket > 0) {
      ASSERT_GT(value, LatencyHistogram::upper(bucket - 1));
    }
  }
}

TEST(LatencyHistogram, QuantilesAreWithinTheirErrorOfTheSortedSample) {
  static LatencyHistogram histogram{}, half{};
  Random random(11);
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 100000; ++i) values.push_back(random.next() >> (20 + random.below(40)));
  for (std::size_t i = 0; i < values.size(); ++i) (i % 2 ? half : histogram).add(values[i]);
  histogram.merge(half);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.total(), values.size());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.quantile(1.0), values.back());
  for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact =
        static_cast<double>(values[static_cast<std::size_t>(share * static_cast<double>(values.size())) - 1]);
    EXPECT_GE(static_cast<double>(histogram.quantile(share)), exact);
    EXPECT_LE(static_cast<double>(histogram.quantile(share)), exact * (1 + 1.0 / 32) + 1);
  }
}

TEST(LatencyHistogram, EmptyHasNoQuantile) {
  static LatencyHistogram histogram{};
  EXPECT_EQ(histogram.quantile(0.5), 0u);
}

TEST(Arena, ResidentBytesAreWhatTheKernelCounts) {
  Arena arena;
  arena.reserve(64 << 20);
  EXPECT_EQ(arena.resident_bytes(), 0u);
  char* first = static_cast<char*>(arena.take_bytes(100));
  static_cast<void>(arena.take_bytes(3 * kPage));
  arena.populate(1 << 20);
  std::vector<unsigned char> in_core((64 << 20) / kPage);
  ASSERT_EQ(mincore(first, 64 << 20, in_core.data()), 0);
  const auto resident =
      static_cast<std::size_t>(std::count_if(in_core.begin(), in_core.end(), [](unsigned char c) { return c & 1; }));
  EXPECT_EQ(arena.resident_bytes(), resident * kPage);
}

TEST(Arena, PiecesStartOnLinesOfTheirOwnAndAreZero) {
  Arena arena;
  arena.reserve(1 << 20);
  char* previous_end = nullptr;
  for (std::size_t bytes : {1u, 63u, 64u, 65u, 1000u}) {
    auto* piece = static_cast<char*>(arena.take_bytes(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % kCacheLine, 0u);
    EXPECT_GE(piece, previous_end);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(piece[i], 0);
    previous_end = piece + bytes;
  }
}

TEST(Arena, MoreThanReservedEndsWithOneSentence) {
  Arena arena;
  arena.reserve(kPage);
  EXPECT_EXIT(arena.take_bytes(2 * kPage), testing::ExitedWithCode(1), "bookkeeping needs more than the 4096 bytes");
}

TEST(ResidentMemory, SeesPagesComeAndGo) {
  ResidentMemory memory;
  memory.open();
  const std::size_t bytes = 32 << 20;
  const std::uint64_t before = memory.bytes();
  auto* pages = static_cast<char*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  const std::uint64_t during = memory.bytes();
  munmap(pages, bytes);
  EXPECT_NEAR(static_cast<double>(during - before), static_cast<double>(bytes), 1 << 20);
  EXPECT_LT(memory.bytes(), during - bytes / 2);
}

TEST(CycleClock, ReadCostIsBelowAMicrosecond) {
  const CycleRate rate;
  const Cycles cost = read_cost();
  EXPECT_GT(rate.per_second(), 1e6);
  EXPECT_LT(static_cast<double>(cost) / rate.per_second(), 1e-6);
}

}  // namespace
}  // namespace heapyard::kit
