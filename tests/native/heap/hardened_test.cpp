// SPDX-License-Identifier: Apache-2.0
// What heapyard-hardened does about mistakes, in a program whose malloc it is: each mitigation has its test.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kSizes[] = {1, 100, 1'000, 5'000, 30'000, 100'000, 3'000'000};

class Mistakes : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "fast"); }
  std::size_t bytes() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Mistakes, testing::ValuesIn(kSizes));

// The threat: a block that is freed twice is handed out twice, and two owners write to it.
TEST_P(Mistakes, FreedTwiceAtOnce) {
  EXPECT_DEATH(
      {
        void* block = malloc(bytes());
        free(block);
        free(block);
      },
      "heapyard: free\\(0x[0-9a-f]+\\): a (large )?block (of [0-9]+ bytes )?that was freed already");
}

TEST_P(Mistakes, FreedTwiceMuchLater) {
  EXPECT_DEATH(
      {
        void* block = malloc(bytes());
        free(block);
        for (int i = 0; i < 3000; ++i) free(malloc(64 + i % 50));
        malloc_trim(0);
        free(block);
      },
      "heapyard: free");
}

TEST_P(Mistakes, FreedTwiceByAnotherThread) {
  EXPECT_DEATH(
      {
        void* block = malloc(bytes());
        std::thread([&] { free(block); }).join();
        free(block);
      },
      "heapyard: free");
}

// Two threads that free one block at the same moment: one of them finds out.
TEST_P(Mistakes, FreedTwiceAtTheSameMoment) {
  EXPECT_DEATH(
      {
        for (int turn = 0; turn < 200; ++turn) {
          void* block = malloc(bytes());
          std::atomic<int> ready{0};
          const auto go = [&] {
            ++ready;
            while (ready != 2) continue;
            free(block);
          };
          std::thread other(go);
          go();
          other.join();
        }
      },
      "heapyard: free");
}

// The threat: free of an address inside of a block lets it overlap with the next.
TEST_P(Mistakes, AnAddressInsideOfABlock) {
  // A block of 16 bytes has no other multiple of 16 inside.
  if (bytes() > 16) {
    EXPECT_DEATH(free(static_cast<char*>(malloc(bytes())) + 16), "heapyard: free.*inside of");
  }
  EXPECT_DEATH(free(static_cast<char*>(malloc(bytes())) + 8), "heapyard: free.*inside of");
}

TEST_P(Mistakes, ReallocOfWhatWasFreed) {
  EXPECT_DEATH(
      {
        void* block = malloc(bytes());
        free(block);
        block = realloc(block, 2 * bytes());
      },
      "heapyard: realloc");
}

TEST(MistakesElsewhere, WhatIsNoBlockAtAll) {
  static long global[8];
  long local[8] = {};
  EXPECT_DEATH(free(global + 4), "heapyard: free.*no block of this heap begins here");
  EXPECT_DEATH(free(local + 2), "heapyard: free.*no block of this heap begins here");
  EXPECT_DEATH(free(reinterpret_cast<void*>(std::uintptr_t{0x1000})), "no block of this heap begins here");
}

// The threat: a write through a stale pointer changes what is of somebody else by now.
TEST(MistakesElsewhere, WrittenAfterItsFree) {
  EXPECT_DEATH(
      {
        char* block = static_cast<char*>(malloc(200));
        free(block);
        block[10] = 1;
        for (int i = 0; i < 10'000; ++i) free(malloc(200));
      },
      "heapyard: malloc.*a block of [0-9]+ bytes was written after it was freed, near byte 8");
}

// The threat: to read or write beyond a large block reaches the next.
TEST(MistakesElsewhere, BeyondALargeBlockLiesAGuard) {
  for (const std::size_t bytes : {std::size_t{131'072}, std::size_t{200'000}, std::size_t{3'000'000}}) {
    for (char* block :
         {static_cast<char*>(malloc(bytes)), static_cast<char*>(calloc(bytes, 1)),
          static_cast<char*>(aligned_alloc(4096, bytes)), static_cast<char*>(realloc(malloc(9), bytes))}) {
      const std::size_t usable = malloc_usable_size(block);
      ASSERT_GE(usable, bytes);
      std::memset(block, 1, usable);
      EXPECT_DEATH(static_cast<volatile char*>(block)[usable] = 1, "");
      free(block);
    }
  }
}

TEST(Hardened, GuardedBlocksGrowShrinkAndKeepWhatTheyHold) {
  std::mt19937 random(1);
  std::vector<unsigned char*> blocks(64, nullptr);
  std::vector<std::size_t> sizes(64, 0);
  for (int step = 0; step < 3'000; ++step) {
    const std::size_t at = random() % 64, bytes = random() % (random() % 20 == 0 ? 4'000'000 : 300'000) + 1;
    auto*& block = blocks[at];
    for (std::size_t i = 0; i < sizes[at]; i += 1000) ASSERT_EQ(block[i], at + 1);
    block = static_cast<unsigned char*>(realloc(block, bytes));
    ASSERT_NE(block, nullptr);
    for (std::size_t i = 0; i < std::min(sizes[at], bytes); i += 1000) ASSERT_EQ(block[i], at + 1);
    std::memset(block, static_cast<int>(at + 1), bytes);
    sizes[at] = bytes;
  }
  for (unsigned char* block : blocks) free(block);
}

// More large blocks than guards: those beyond have none, and are right.
TEST(Hardened, ThereAreFewerGuardsThanMappings) {
  std::vector<void*> blocks(10'000);
  for (void*& block : blocks) {
    block = malloc(140'000);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, 100);
  }
  for (void* block : blocks) free(block);
}

// The threat: who knows which block comes next can place one beside another.
TEST(Hardened, NobodyKnowsWhichBlockComesNext) {
  unsigned neighbours = 0, same = 0;
  char* before = static_cast<char*>(malloc(100));
  for (int i = 0; i < 1'000; ++i) {
    char* block = static_cast<char*>(malloc(100));
    neighbours += block - before == 112 || before - block == 112;
    before = block;
  }
  EXPECT_LT(neighbours, 300u);
  for (int i = 0; i < 1'000; ++i) {
    void* block = malloc(100);
    free(block);
    void* next = malloc(100);
    same += next == block;
    free(next);
  }
  EXPECT_LT(same, 30u);
}

TEST(Hardened, WhatWaitsIsFree) {
  std::vector<void*> blocks(1'000);
  for (void*& block : blocks) block = malloc(500);
  const auto full = mallinfo2();
  for (void* block : blocks) free(block);
  const auto empty = mallinfo2();
  EXPECT_GE(full.uordblks - empty.uordblks, 1'000u * 500);
}

TEST(Hardened, ThreadsSwapBlocksAndNoneIsLost) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<unsigned char*, std::size_t>> held;
      for (int i = 0; i < 30'000; ++i) {
        if (held.size() < 100 || random() % 2 == 0) {
          const std::size_t bytes = random() % (random() % 100 == 0 ? 200'000 : 1'500) + 1;
          held.emplace_back(static_cast<unsigned char*>(malloc(bytes)), bytes);
          std::memset(held.back().first, static_cast<int>(t + 1), bytes);
        } else {
          std::swap(held[random() % held.size()], held.back());
          auto [block, bytes] = held.back();
          wrong += block[0] != t + 1 || block[bytes - 1] != t + 1;
          free(block);
          held.pop_back();
        }
      }
      for (auto [block, bytes] : held) free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
