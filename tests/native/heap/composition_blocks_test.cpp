// SPDX-License-Identifier: Apache-2.0
// Whole compositions: the blocks they give, and scarce memory.
#include <cerrno>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "compositions.hpp"

namespace heapyard::test {

TEST_P(CompositionAlone, EverySizeIsServedAlignedAndWritable) {
  for (std::size_t bytes = 0; bytes < 3000; ++bytes) {
    void* block = heap.allocate(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % (bytes <= 8 ? 8 : 16), 0u);
    ASSERT_GE(heap.usable(block), bytes);
    fill(block, heap.usable(block), 1);
    for (std::size_t alignment = 1; alignment <= 1u << 16; alignment *= 4) {
      void* aligned = heap.allocate_aligned(bytes, alignment);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % alignment, 0u);
      fill(aligned, bytes, 2);
      heap.free(aligned);
    }
    ASSERT_TRUE(filled(block, bytes));
    heap.free(block);
  }
  check();
}

TEST_P(CompositionAlone, AnAlignedBlockOfNoBytesIsABlockOfItsOwn) {
  for (std::size_t alignment = 16; alignment <= 4096; alignment *= 2) {
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 100; ++i) {
        blocks.push_back(heap.allocate_aligned(0, alignment));
        blocks.push_back(heap.allocate(alignment));
      }
      ASSERT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
      if (round == 1) {
        for (void* block : blocks) heap.free(block);
        blocks.clear();
      }
    }
    for (void* block : blocks) heap.free(block);
  }
  check();
}

TEST_P(CompositionAlone, ZeroedMemoryIsZeroAfterUse) {
  for (const std::size_t bytes : {8ul, 100ul, 5'000ul, 3'000'001ul}) {
    for (int round = 0; round < 3; ++round) {
      auto* block = static_cast<unsigned char*>(heap.allocate_zeroed(bytes));
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(block[i], 0);
      fill(block, bytes, 0xEE);
      heap.free(block);
    }
  }
}

TEST_P(CompositionAlone, ResizeInPlaceKeepsWhatFits) {
  void* small = heap.allocate(100);
  EXPECT_TRUE(heap.resize(small, heap.usable(small)));
  EXPECT_FALSE(heap.resize(small, heap.usable(small) + 1));
  EXPECT_FALSE(heap.resize(small, 8));  // a smaller block would do
  heap.free(small);
  if (heap.one_size_each) return;
  void* large = heap.allocate(100'000);
  fill(large, 100'000, 3);
  EXPECT_TRUE(heap.resize(large, 2'000));
  EXPECT_TRUE(filled(large, 2'000));
  EXPECT_FALSE(heap.resize(large, 16));
  EXPECT_FALSE(heap.resize(large, SIZE_MAX));
  heap.free(large);
  check();
}

TEST_P(CompositionAlone, AGrowingLargeBlockMovesWithItsContents) {
  listen_no_more();  // else its blocks are copied, so that the listener hears of each
  std::vector<void*> between;
  std::size_t bytes = 400'000;
  void* block = heap.allocate(bytes);
  fill(block, bytes, 7);
  unsigned moves = 0;
  for (int step = 0; step < 14; ++step) {
    const std::size_t larger = bytes + bytes / 4;
    between.push_back(heap.allocate(700'000));  // nothing grows into what is behind it
    ScarcePages::left = 0;
    EXPECT_EQ(heap.move(block, std::size_t{1} << 60), nullptr);
    ScarcePages::left = SIZE_MAX;
    void* moved = heap.resize(block, larger) ? block : heap.move(block, larger);
    moves += moved != nullptr;
    if (moved == nullptr) {
      moved = heap.allocate(larger);
      std::memcpy(moved, block, bytes);
      heap.free(block);
    }
    block = moved;
    ASSERT_GE(heap.usable(block), larger);
    ASSERT_TRUE(filled(block, bytes));
    bytes = larger;
    fill(block, bytes, static_cast<unsigned char>(step));
  }
  EXPECT_GT(moves, 5u);
  heap.free(block);
  for (void* other : between) heap.free(other);
  check();
}

TEST_P(CompositionAlone, MemoryRunsOutAndComesBackWithNothingLost) {
  in_thread([&] {
    for (const std::size_t bytes : {24ul, 500ul, 4'000ul, 100'000ul}) {
      ScarcePages::left = 3;
      std::vector<void*> blocks;
      while (void* block = heap.allocate(bytes)) {
        fill(block, bytes, static_cast<unsigned char>(blocks.size()));
        blocks.push_back(block);
      }
      EXPECT_EQ(errno, ENOMEM);
      ScarcePages::left = 0;
      EXPECT_EQ(heap.allocate_aligned(1 << 22, 1 << 20), nullptr);
      EXPECT_EQ(heap.allocate_zeroed(1 << 22), nullptr);
      for (void* block : blocks) {
        ASSERT_TRUE(filled(block, bytes));
        heap.free(block);
      }
      ScarcePages::left = 2;  // a heap that gave everything back is charged for it again
      void* again = heap.allocate(bytes);
      EXPECT_NE(again, nullptr);
      heap.free(again);
    }
  });
  check();
}

TEST_P(CompositionAlone, WhereSpansMayNotGrowBlocksArePackedTightAndStayWhatTheyAre) {
  std::mt19937 random(17);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  in_thread([&] {
    for (int step = 0; step < 24'000; ++step) {
      if (step % 6'000 == 0) ScarcePages::most = step / 6'000 % 2 == 0 ? 1 << 20 : SIZE_MAX;
      if (blocks.size() > 3000) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        auto [block, bytes] = blocks.back();
        ASSERT_TRUE(filled(block, bytes));
        blocks.pop_back();
        const std::size_t other = random() % 3000;
        if (step % 5 == 0 && heap.resize(block, other)) {
          ASSERT_GE(heap.usable(block), other);
          ASSERT_TRUE(filled(block, other < bytes ? other : bytes));
        }
        heap.free(block);
      }
      const std::size_t bytes = 1 + random() % (random() % 30 == 0 ? 200'000 : 700);
      const std::size_t alignment = std::size_t{1} << random() % 13;
      auto* block = static_cast<unsigned char*>(step % 3 == 0   ? heap.allocate_aligned(bytes, alignment)
                                                : step % 3 == 1 ? heap.allocate_zeroed(bytes)
                                                                : heap.allocate(bytes));
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(step % 3 != 0 || reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
      ASSERT_TRUE(step % 3 != 1 || (block[0] == 0 && filled(block, bytes)));
      ASSERT_GE(heap.usable(block), bytes);
      fill(block, bytes, static_cast<unsigned char>(step));
      blocks.emplace_back(block, bytes);
    }
  });
  ScarcePages::most = SIZE_MAX;
  for (auto [block, bytes] : blocks) {
    ASSERT_TRUE(filled(block, bytes));
    heap.free(block);
  }
  check();
}

}  // namespace heapyard::test
