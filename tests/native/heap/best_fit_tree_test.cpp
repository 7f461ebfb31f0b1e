// SPDX-License-Identifier: Apache-2.0
// The tree component against a model of byte ranges: no overlap, contents kept, everything coalesces.
#include "heap/layers/backend/best_fit_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "consistent_tree.hpp"
#include "sanitized.hpp"
#include "test_pages.hpp"

namespace heapyard {
namespace {

using Tree = BestFitTree<test::ScarcePages>;

class BestFit : public testing::Test {
 protected:
  void SetUp() override { test::ScarcePages::left = SIZE_MAX; }
  void TearDown() override { test::ScarcePages::left = SIZE_MAX; }

  void check() {
    std::size_t blocks;
    ASSERT_TRUE(tree_.consistent(&blocks));
  }

  Tree tree_;
};

struct Held {
  std::size_t bytes;
  unsigned char fill;
};

bool holds(const void* range, const Held& held) {
  const auto* bytes = static_cast<const unsigned char*>(range);
  for (std::size_t i = 0; i < held.bytes; ++i) {
    if (bytes[i] != held.fill) return false;
  }
  return true;
}

TEST_F(BestFit, RandomRangesKeepTheirContentsAndJoinAgain) {
  std::map<char*, Held> held;
  std::mt19937 random(7);
  for (int step = 0; step < (test::kSanitized ? 15'000 : 60'000); ++step) {
    const unsigned what = random() % 10;
    const std::size_t bytes = 1 + random() % (random() % 20 == 0 ? 300'000 : 4'000);
    if (what < 5) {
      const std::size_t alignment = what == 0 ? std::size_t{32} << random() % 9 : 16;
      void* range = what == 0 ? tree_.allocate_aligned(bytes, alignment) : tree_.allocate(bytes);
      ASSERT_NE(range, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(range) % alignment, 0u);
      ASSERT_GE(tree_.usable(range), bytes);
      const Held now{tree_.usable(range), static_cast<unsigned char>(random())};
      std::memset(range, now.fill, now.bytes);
      const auto [at, fresh] = held.emplace(static_cast<char*>(range), now);
      ASSERT_TRUE(fresh);
      if (at != held.begin()) {
        ASSERT_LE(std::prev(at)->first + std::prev(at)->second.bytes, at->first);
      }
      if (std::next(at) != held.end()) {
        ASSERT_LE(at->first + now.bytes, std::next(at)->first);
      }
    } else if (!held.empty()) {
      auto at = held.lower_bound(std::next(held.begin(), static_cast<long>(random() % held.size()))->first);
      ASSERT_TRUE(holds(at->first, at->second));
      if (what == 5) {
        const std::size_t kept = std::min(bytes, at->second.bytes);
        if (tree_.resize(at->first, bytes)) {
          ASSERT_GE(tree_.usable(at->first), bytes);
          ASSERT_TRUE(holds(at->first, {kept, at->second.fill}));
          at->second.bytes = tree_.usable(at->first);
          std::memset(at->first, at->second.fill, at->second.bytes);
        }
      } else {
        tree_.free(at->first);
        held.erase(at);
      }
    }
    if (step % 500 == 0) check();
  }
  for (const auto& [range, what] : held) {
    ASSERT_TRUE(holds(range, what));
    tree_.free(range);
  }
  check();
  EXPECT_EQ(tree_.usage().free, tree_.usage().mapped);
}

TEST_F(BestFit, TheSmallestThatFitsIsTaken) {
  std::vector<void*> guards, holes;
  for (const std::size_t bytes : {4000, 1000, 2000, 3000}) {
    holes.push_back(tree_.allocate(bytes));
    guards.push_back(tree_.allocate(600));
  }
  for (void* hole : holes) tree_.free(hole);
  EXPECT_EQ(tree_.allocate(1900), holes[2]);
  EXPECT_EQ(tree_.allocate(2900), holes[3]);
  EXPECT_EQ(tree_.allocate(1000), holes[1]);
  for (void* guard : guards) tree_.free(guard);
  check();
}

TEST_F(BestFit, ARestBelowTheLeastSizeGoesWithTheBlock) {
  void* hole = tree_.allocate(4000);
  void* guard = tree_.allocate(600);
  tree_.free(hole);
  EXPECT_EQ(tree_.allocate(4000 - Tree::kLeast + 64), hole);
  EXPECT_GE(tree_.usable(hole), 4000u);
  tree_.free(guard);
}

TEST_F(BestFit, ASplitHandsOutTheUpperPart) {
  char* hole = static_cast<char*>(tree_.allocate(8000));
  void* guard = tree_.allocate(600);
  tree_.free(hole);
  char* taken = static_cast<char*>(tree_.allocate(1000));
  EXPECT_GT(taken, hole);
  EXPECT_LT(taken, hole + 8000);
  tree_.free(guard);
  check();
}

TEST_F(BestFit, GrowsIntoTheFreeBlockBehindAndGivesBackWhatItDoesNotNeed) {
  char* behind = static_cast<char*>(tree_.allocate(8000));
  char* range = static_cast<char*>(tree_.allocate(2000));
  if (range > behind) std::swap(range, behind);
  const std::size_t before = tree_.usable(range);
  EXPECT_FALSE(tree_.resize(range, before + 1000));  // what is behind is in use
  tree_.free(behind);
  ASSERT_TRUE(tree_.resize(range, before + 1000));
  EXPECT_GE(tree_.usable(range), before + 1000);
  ASSERT_TRUE(tree_.resize(range, 600));
  EXPECT_LT(tree_.usable(range), 600 + Tree::kLeast);
  check();
}

TEST_F(BestFit, OutOfMemoryIsNullAndPasses) {
  test::ScarcePages::left = 1;
  std::vector<void*> ranges;
  for (;;) {
    void* range = tree_.allocate(5000);
    if (range == nullptr) break;
    ranges.push_back(range);
  }
  EXPECT_GT(ranges.size(), 100u);
  EXPECT_EQ(tree_.allocate_aligned(5000, 4096), nullptr);
  check();
  for (void* range : ranges) tree_.free(range);
  EXPECT_EQ(tree_.usage().free, tree_.usage().mapped);
  EXPECT_NE(tree_.allocate(5000), nullptr);
}

TEST_F(BestFit, TrimGivesTheInsideOfFreeBlocksBackAndKeepsTheTrees) {
  void* range = tree_.allocate(500'000);
  void* guard = tree_.allocate(600);
  std::memset(range, 1, 500'000);
  tree_.free(range);
  test::ScarcePages::decommitted = 0;
  tree_.trim();
  EXPECT_GE(test::ScarcePages::decommitted, 490'000u);
  check();
  EXPECT_EQ(tree_.allocate(500'000), range);
  tree_.free(guard);
}

TEST_F(BestFit, ShrinkingGivesAddressSpaceBackAndWhatIsLeftIsServedAsBefore) {
  std::mt19937 random(5);
  std::map<void*, Held> ranges;
  int times = 0;
  for (int step = 0; step < 4000; ++step) {
    const std::size_t bytes = 16 + random() % (random() % 8 == 0 ? 300'000 : 3000);
    const auto fill = static_cast<unsigned char>(random());
    void* range = tree_.allocate(bytes);
    ASSERT_NE(range, nullptr);
    ASSERT_TRUE(ranges.emplace(range, Held{bytes, fill}).second);
    std::memset(range, fill, bytes);
    while (ranges.size() > 150) {
      const auto at = std::next(ranges.begin(), static_cast<long>(random() % ranges.size()));
      ASSERT_TRUE(holds(at->first, at->second));
      tree_.free(at->first);
      ranges.erase(at);
    }
    if (step % 40 != 0) continue;
    const HeapUsage before = tree_.usage();
    const bool shrunk = tree_.shrink();
    check();
    const HeapUsage after = tree_.usage();
    ASSERT_EQ(before.mapped - after.mapped, before.free - after.free);
    ASSERT_EQ(shrunk, before.mapped != after.mapped);
    if (shrunk) {
      ASSERT_LE(after.free, (ranges.size() + 1) * 2 * (os::page_bytes() + Tree::kLeast));
    }
    times += shrunk;
    ASSERT_FALSE(tree_.shrink());  // there is nothing left
  }
  EXPECT_GT(times, 30);
  for (const auto& [range, held] : ranges) {
    ASSERT_TRUE(holds(range, held));
    tree_.free(range);
  }
  EXPECT_TRUE(tree_.shrink());
  EXPECT_EQ(tree_.usage().mapped, 0u);
}

TEST_F(BestFit, WhatTheSystemCannotUnmapStays) {
  void* range = tree_.allocate(500'000);
  void* guard = tree_.allocate(600);
  tree_.free(range);
  const std::size_t mapped = tree_.usage().mapped;
  test::ScarcePages::unmaps = false;
  EXPECT_FALSE(tree_.shrink());
  test::ScarcePages::unmaps = true;
  check();
  EXPECT_EQ(tree_.usage().mapped, mapped);
  EXPECT_NE(tree_.allocate(500'000), nullptr);
  EXPECT_EQ(tree_.usage().mapped, mapped);
  tree_.free(guard);
}

// Whole pages: their first and last words stand for all.
TEST_F(BestFit, LargeRangesMoveWithTheirContentsAmongOthers) {
  struct Large {
    char* range;
    std::size_t bytes;
    std::size_t word;
  };
  const auto mark = [](Large& large, std::size_t word) {
    large.word = word;
    for (const std::size_t at : {std::size_t{0}, large.bytes / 2, large.bytes - 8})
      std::memcpy(large.range + at, &word, 8);
  };
  const auto kept = [](const Large& large, std::size_t bytes) {
    return std::memcmp(large.range, &large.word, 8) == 0 && std::memcmp(large.range + bytes / 2, &large.word, 8) == 0 &&
           std::memcmp(large.range + bytes - 8, &large.word, 8) == 0;
  };
  std::vector<Large> held;
  std::mt19937 random(11);
  unsigned moves = 0;
  for (std::size_t step = 1; step < 4000; ++step) {
    const std::size_t bytes =
        random() % 3 == 0 ? 600 + random() % 200'000 : Tree::kLarge / 2 + random() % (4 * Tree::kLarge);
    if (random() % 5 < 2 || held.empty()) {
      Large fresh{static_cast<char*>(tree_.allocate(bytes / 8 * 8)), bytes / 8 * 8, 0};
      ASSERT_NE(fresh.range, nullptr);
      mark(fresh, step);
      held.push_back(fresh);
      continue;
    }
    Large& one = held[random() % held.size()];
    ASSERT_TRUE(kept(one, one.bytes));
    if (random() % 2 == 0 && held.size() < 60) {
      const std::size_t larger = one.bytes + (1 + random() % 1000) * 2048, before = tree_.usable(one.range);
      test::ScarcePages::left = random() % 4 == 0 ? 0 : SIZE_MAX;  // the system may refuse
      void* moved = tree_.resize(one.range, larger) ? one.range : tree_.move(one.range, larger);
      if (moved == nullptr) {
        ASSERT_EQ(tree_.usable(one.range), before);
      } else {
        one.range = static_cast<char*>(moved);
        ASSERT_GE(tree_.usable(moved), larger);
        ASSERT_TRUE(kept(one, one.bytes));
        moves += before != tree_.usable(moved);
        one.bytes = larger / 8 * 8;
        mark(one, step);
      }
      test::ScarcePages::left = SIZE_MAX;
    } else {
      tree_.free(one.range);
      one = held.back();
      held.pop_back();
    }
    if (step % 100 == 0) check();
  }
  EXPECT_GT(moves, 200u);
  for (const Large& one : held) {
    ASSERT_TRUE(kept(one, one.bytes));
    tree_.free(one.range);
  }
  check();
  EXPECT_EQ(tree_.usage().free, tree_.usage().mapped);
}

TEST_F(BestFit, MovesStopBeforeTheSystemRunsOutOfMappings) {
  void* range = tree_.allocate(Tree::kLarge);
  std::memset(range, 5, Tree::kLarge);
  std::size_t moves = 0;
  for (void* moved; moves <= Tree::kMostMoves; ++moves) {
    moved = tree_.move(range, tree_.usable(range) + 1);
    if (moved == nullptr) break;
    range = moved;
  }
  EXPECT_EQ(moves, Tree::kMostMoves);
  EXPECT_TRUE(holds(range, {Tree::kLarge, 5}));
  tree_.free(range);
  check();
}

// A process that may have so many bytes of address space.
struct LimitedPages : test::ScarcePages {
  static inline std::size_t room;
  static bool takes(std::size_t bytes) { return bytes <= room && (room -= bytes, true); }
  static void* map(std::size_t bytes) { return takes(bytes) ? os::map(bytes) : nullptr; }
  static bool unmap(void* memory, std::size_t bytes) { return room += bytes, os::unmap(memory, bytes); }
  static void* remap(void* memory, std::size_t bytes, std::size_t larger) {
    return takes(larger - bytes) ? os::remap(memory, bytes, larger) : nullptr;
  }
};

TEST(BestFitUnderALimit, AListGrowsIntoTheAddressSpaceOfFreeRanges) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  LimitedPages::room = 64 * kMiB;
  BestFitTree<LimitedPages> tree;
  void* list = tree.allocate(4 * kMiB);
  std::vector<void*> small;
  while (void* range = tree.allocate(10'000)) small.push_back(range);
  ASSERT_GT(small.size(), 5000u);
  ASSERT_LT(LimitedPages::room, kMiB);
  EXPECT_EQ(tree.move(list, 8 * kMiB), nullptr);
  for (std::size_t i = 0; i < small.size(); ++i) {
    if (i % 500 != 0) tree.free(small[i]);  // no free range is large enough
  }
  std::memset(list, 5, 4 * kMiB);
  list = tree.move(list, 8 * kMiB);
  ASSERT_NE(list, nullptr);
  EXPECT_TRUE(holds(list, {4 * kMiB, 5}));
  std::size_t blocks;
  EXPECT_TRUE(tree.consistent(&blocks));
}

// As Python's list does between arenas of small objects: what it leaves behind never joins.
TEST_F(BestFit, WhatAGrowingRangeLeavesBehindGoesBackBeforeTheHeapGrows) {
  std::vector<std::pair<void*, Held>> guards;
  std::size_t bytes = Tree::kLarge, most_free = 0;
  void* list = tree_.allocate(bytes);
  std::memset(list, 1, bytes);
  for (int step = 0; step < 40; ++step) {
    const Held held{600 + static_cast<std::size_t>(step) % 7 * 100'000, static_cast<unsigned char>(step)};
    guards.emplace_back(tree_.allocate(held.bytes), held);
    std::memset(guards.back().first, held.fill, held.bytes);
    void* larger = tree_.allocate(bytes + bytes / 8);
    ASSERT_NE(larger, nullptr);
    std::memcpy(larger, list, bytes);
    tree_.free(list);
    list = larger;
    bytes += bytes / 8;
    check();
    const HeapUsage usage = tree_.usage();
    most_free = std::max(most_free, usage.free * 100 / (usage.mapped - usage.free));
    for (const auto& [range, held] : guards) ASSERT_TRUE(holds(range, held));
  }
  EXPECT_LE(most_free, 160u);  // percent of what is in use: half, and the copy before
  const std::size_t mapped = tree_.usage().mapped;
  test::ScarcePages::unmaps = false;
  void* other = tree_.allocate(2 * bytes);  // nothing can go back: the heap grows all the same
  test::ScarcePages::unmaps = true;
  EXPECT_NE(other, nullptr);
  EXPECT_GT(tree_.usage().mapped, mapped);
  check();
}

TEST(HugeSteps, AreTakenOnceTheHeapIsLargeAndOnlyForSmallNeeds) {
  using Steps = HugeSteps<test::ScarcePages>;
  std::size_t bytes = 0;
  EXPECT_NE(Steps::map(8000, 0, bytes), nullptr);
  EXPECT_EQ(bytes, SmallSteps<test::ScarcePages>::kStep);
  for (int i = 0; i < 10; ++i) {
    void* memory = Steps::map(8000, Steps::kHugeFrom, bytes);
    EXPECT_EQ(bytes, Steps::kHuge);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % Steps::kHuge, 0u);
    std::memset(memory, 1, bytes);
    os::map(4096);  // so that the next one does not happen to be aligned
  }
  EXPECT_NE(Steps::map(Steps::kDense + 1, Steps::kHugeFrom, bytes), nullptr);
  EXPECT_LT(bytes, Steps::kHuge);
  test::ScarcePages::left = 0;
  EXPECT_EQ(Steps::map(8000, Steps::kHugeFrom, bytes), nullptr);
  test::ScarcePages::left = SIZE_MAX;
}

}  // namespace
}  // namespace heapyard
