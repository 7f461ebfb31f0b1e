// SPDX-License-Identifier: Apache-2.0
// One cache by itself: true LRU, and which walks miss.
#include "simulator/model/cache.hpp"

#include <gtest/gtest.h>

namespace {

using namespace heapyard::simulator;

std::uint64_t misses(Cache& cache, Line first, std::uint64_t lines, std::uint64_t stride, int rounds) {
  std::uint64_t count = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t i = 0; i < lines; ++i) {
      const Line line = first + i * stride;
      if (cache.use(line)) continue;
      ++count;
      cache.insert(slot_of(line, 0));
    }
  }
  return count;
}

TEST(Cache, EvictsWhatWasUsedLeastRecently) {
  Cache cache(4 * kLineBytes, 4, false);  // one set
  for (Line line = 1; line <= 4; ++line) EXPECT_EQ(cache.insert(slot_of(line, 0)), 0u);
  ASSERT_NE(cache.use(1), nullptr);
  EXPECT_EQ(line_of(cache.insert(slot_of(5, kDirty))), 2u);
  ASSERT_NE(cache.use(3), nullptr);
  EXPECT_EQ(line_of(cache.insert(slot_of(6, 0))), 4u);
  EXPECT_EQ(line_of(cache.insert(slot_of(7, 0))), 1u);
  EXPECT_EQ(cache.remove(5), slot_of(5, kDirty));
  EXPECT_EQ(cache.use(5), nullptr);
  EXPECT_EQ(cache.insert(slot_of(8, 0)), 0u) << "a line was removed, so that there is room";
}

TEST(Cache, FindingIsNoUse) {
  Cache cache(2 * kLineBytes, 2, false);
  cache.insert(slot_of(1, 0));
  cache.insert(slot_of(2, 0));
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(line_of(cache.insert(slot_of(3, 0))), 1u);
}

TEST(Cache, WalkThatFitsMissesOnceALine) {
  Cache cache(32 * 1024, 8, false);
  EXPECT_EQ(misses(cache, 1000, 512, 1, 5), 512u);
}

TEST(Cache, WalkThatIsOneLineTooLongPerSetAlwaysMisses) {
  Cache cache(32 * 1024, 8, false);  // 64 sets
  EXPECT_EQ(misses(cache, 1024, 576, 1, 5), 5 * 576u)
      << "nine lines for the eight ways of each set, in turns: LRU's worst case";
}

TEST(Cache, StrideOfAllSetsUsesOneSet) {
  Cache cache(32 * 1024, 8, false);
  EXPECT_EQ(misses(cache, 64, 8, 64, 4), 8u);
  Cache other(32 * 1024, 8, false);
  EXPECT_EQ(misses(other, 64, 9, 64, 4), 4 * 9u);
}

TEST(Cache, FramesSpreadPagesThatAreNeighboursOverTheSets) {
  Cache cache(256 * 1024, 8, true);  // 512 sets, 8 frames of 64
  // The first lines of 64 pages: by address they would share one set in eight, 64 lines for 8 ways each.
  EXPECT_LT(misses(cache, 64 * 100, 32, 64, 3), 3 * 32u);
  Cache whole(256 * 1024, 8, true);
  EXPECT_EQ(misses(whole, 64 * 100, 64, 1, 3), 64u) << "a page never competes with itself";
}

}  // namespace
