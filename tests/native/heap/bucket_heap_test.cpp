// SPDX-License-Identifier: Apache-2.0
// The bucket component over ranges that count: order of records, and when they come and go.
#include "heap/layers/spans/bucket_heap.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "heap/allocators/bfm.hpp"

namespace heapyard {
namespace {

// Ranges from the C library, counted; as many as `left`.
struct CountedRanges {
  std::set<void*> out;
  std::size_t left = SIZE_MAX;

  CountedRanges() = default;
  CountedRanges(const CountedRanges&) = delete;
  ~CountedRanges() {
    for (void* range : out) std::free(range);
  }

  void* allocate(std::size_t bytes) {
    if (left == 0) return nullptr;
    --left;
    return *out.insert(std::aligned_alloc(16, (bytes + 15) / 16 * 16)).first;
  }
  void* allocate_aligned(std::size_t, std::size_t) { return nullptr; }
  void free(void* range) {
    ASSERT_EQ(out.erase(range), 1u);
    std::free(range);
  }
  std::size_t usable(const void*) const { return 0; }
  void trim() {}
};
static_assert(RangeSource<CountedRanges>);

template <class Heap>
void* one(Heap& heap, CountedRanges& ranges, unsigned size_class) {
  void* block;
  return heap.allocate(ranges, size_class, &block, 1, 0) == 1 ? block : nullptr;
}

template <class Steps>
class Buckets : public testing::Test {};
using Tables = testing::Types<BfmSteps, BfmCoarseSteps>;
TYPED_TEST_SUITE(Buckets, Tables);

TYPED_TEST(Buckets, EveryRequestGetsTheSmallestBlockThatHoldsIt) {
  using Steps = TypeParam;
  EXPECT_EQ(Steps::kLargest, 63 * sizeof(void*));
  for (std::size_t bytes = 0; bytes <= Steps::kLargest; ++bytes) {
    const unsigned c = Steps::class_of(bytes);
    EXPECT_GE(Steps::bytes_of(c), bytes);
    if (c > 0) {
      EXPECT_LT(Steps::bytes_of(c - 1), bytes);
    }
  }
  for (const std::size_t words : {1, 3, 5}) EXPECT_EQ(Steps::bytes_of(Steps::class_of(words * 8)), words * 8);
}

TYPED_TEST(Buckets, BlocksAreAlignedDisjointAndKnowTheirRecord) {
  using Steps = TypeParam;
  CountedRanges ranges;
  BucketHeap<Steps, CountedRanges> heap;
  for (unsigned c = 0; c < Steps::kClasses; ++c) {
    std::set<char*> blocks;
    for (int i = 0; i < 1500; ++i) {
      char* block = static_cast<char*>(one(heap, ranges, c));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0u);
      EXPECT_EQ(PageRecord::class_of(PageRecord::prefix_of(block)), c);
      ASSERT_TRUE(blocks.insert(block).second);
    }
    const char* end = nullptr;
    for (char* block : blocks) {
      ASSERT_TRUE(end == nullptr || end <= block - 8);  // a prefix between
      end = block + Steps::bytes_of(c);
      auto* record = reinterpret_cast<char*>(PageRecord::of(block));
      ASSERT_TRUE(ranges.out.contains(record));
      ASSERT_LE(end, record + PageRecord::bytes());
    }
    for (char* block : blocks) heap.free(ranges, reinterpret_cast<void**>(&block), 1);
    EXPECT_TRUE(ranges.out.empty());
    EXPECT_TRUE(heap.consistent());
  }
}

TEST(BucketHeap, TheRecordThatGotABlockBackIsUsedBeforeEmptierOnes) {
  CountedRanges ranges;
  BucketHeap<BfmSteps, CountedRanges> heap;
  const unsigned c = BfmSteps::kClasses - 1;  // 16 blocks a record
  std::vector<void*> blocks;
  for (int i = 0; i < 48; ++i) blocks.push_back(one(heap, ranges, c));
  heap.free(ranges, &blocks[20], 1);  // the second record turns white and comes first
  heap.free(ranges, &blocks[40], 1);  // then the third
  EXPECT_EQ(one(heap, ranges, c), blocks[40]);
  EXPECT_EQ(one(heap, ranges, c), blocks[20]);
  EXPECT_TRUE(heap.consistent());
  EXPECT_EQ(ranges.out.size(), 3u);
  for (void* block : blocks) heap.free(ranges, &block, 1);
  EXPECT_TRUE(ranges.out.empty());
}

TEST(BucketHeap, AnEmptyRecordGoesBackAtOnceOrStaysAsTheLastOne) {
  CountedRanges ranges;
  BucketHeap<BfmSteps, CountedRanges> at_once;
  void* block = one(at_once, ranges, 0);
  at_once.free(ranges, &block, 1);
  EXPECT_TRUE(ranges.out.empty());

  BucketHeap<BfmSteps, CountedRanges, KeepLast> keeps;
  const unsigned c = BfmSteps::kClasses - 1;
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(one(keeps, ranges, c));
  for (void*& each : blocks) keeps.free(ranges, &each, 1);
  EXPECT_EQ(ranges.out.size(), 1u);
  EXPECT_TRUE(keeps.consistent());
}

TEST(BucketHeap, RandomBlocksKeepTheOrderOfRecords) {
  CountedRanges ranges;
  BucketHeap<BfmSteps, CountedRanges> heap;
  std::vector<void*> blocks;
  std::mt19937 random(3);
  for (int step = 0; step < 200'000; ++step) {
    if (blocks.empty() || random() % 100 < (step / 20'000 % 2 ? 40u : 60u)) {
      void* got[4];
      const unsigned n = heap.allocate(ranges, random() % BfmSteps::kClasses, got, 1 + random() % 4, 0);
      blocks.insert(blocks.end(), got, got + n);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      heap.free(ranges, &blocks.back(), 1);
      blocks.pop_back();
    }
    if (step % 5000 == 0) {
      ASSERT_TRUE(heap.consistent());
    }
  }
  heap.free(ranges, blocks.data(), static_cast<unsigned>(blocks.size()));
  EXPECT_TRUE(ranges.out.empty());
}

TEST(BucketHeap, GivesWhatItHasWhenMemoryIsOut) {
  CountedRanges ranges;
  ranges.left = 1;
  BucketHeap<BfmSteps, CountedRanges> heap;
  void* blocks[20];
  const unsigned c = BfmSteps::kClasses - 1;
  EXPECT_EQ(heap.allocate(ranges, c, blocks, 20, 0), 16u);
  EXPECT_EQ(heap.allocate(ranges, c, blocks + 16, 1, 0), 0u);
  heap.free(ranges, blocks, 16);
  EXPECT_TRUE(ranges.out.empty());
}

}  // namespace
}  // namespace heapyard
