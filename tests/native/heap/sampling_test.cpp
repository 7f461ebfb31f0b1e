// SPDX-License-Identifier: Apache-2.0
// Front ends that are sampled: every sample comes when its turn is, however blocks come back meanwhile.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "heap/allocators/bfm.hpp"
#include "heap/allocators/elfmalloc.hpp"
#include "heap/allocators/scalloc.hpp"
#include "sanitized.hpp"
#include "test_samples.hpp"

namespace heapyard {
namespace {

using test::listener;

template <class Heap>
class Sampling : public testing::Test {
 protected:
  void SetUp() override {
    listener().live.clear();
    listener().sampled = listener().returned = 0;
    listener().most_passes = 20;
    listener().twice = false;
  }
  void TearDown() override { test::listen_no_more(); }

  // In a thread of its own, whose front end is new.
  template <class Work>
  static void in_thread(Work work) {
    test::listen(test::kTestEvents);
    std::thread(work).join();
  }
};
using Heaps = testing::Types<BfmSampled, ScallocSampled, ElfmallocSampled>;
TYPED_TEST_SUITE(Sampling, Heaps);

// The turns of one class, as they were drawn, against the number of allocations in between.
struct Turns {
  static inline std::vector<std::uint64_t> drawn;
  static inline std::vector<std::uint64_t> came;  // allocations before each sample
  static inline std::uint64_t count = 0;
  static inline std::mt19937_64 random{7};
  static inline std::uint64_t most = 1;

  static constexpr tracing::SampleEvents kEvents{
      [](std::size_t) noexcept -> tracing::SampleTurn {
        drawn.push_back(random() % most);
        return {drawn.back(), 9};
      },
      [](void*, std::size_t, std::size_t, std::uint32_t) noexcept {
        came.push_back(count);
        count = 0;
      },
      [](void*, std::size_t) noexcept {},
      [](void*) noexcept { return false; },
  };
};

TYPED_TEST(Sampling, ASampleComesAfterAsManyAllocationsAsWereDrawn) {
  for (const std::uint64_t most : {1, 3, 40, 700}) {
    for (const std::size_t bytes : {16ul, 100ul, 480ul}) {
      Turns::drawn.clear();
      Turns::came.clear();
      Turns::count = 0;
      Turns::most = most;
      test::listen(Turns::kEvents);
      std::thread([&] {
        std::mt19937 random(static_cast<unsigned>(bytes + most));
        std::vector<void*> live;
        live.reserve(10'000);
        for (int step = 0; step < 60'000; ++step) {
          // Phases of growing, of shrinking, and of taking and giving back at once.
          const int phase = step / 3'000 % 3;
          const bool frees = !live.empty() && (phase == 1 ? random() % 4 != 0 : phase == 2 && step % 2 == 1);
          if (frees) {
            const std::size_t at = phase == 2 ? live.size() - 1 : random() % live.size();
            TypeParam::free(live[at]);
            live[at] = live.back();
            live.pop_back();
          } else if (live.size() < live.capacity()) {
            const std::size_t before = Turns::came.size();
            live.push_back(TypeParam::allocate(bytes));
            if (Turns::came.size() == before) ++Turns::count;
          }
        }
        for (void* block : live) TypeParam::free(block);
      }).join();
      ASSERT_GT(Turns::came.size(), 20u);
      for (std::size_t i = 0; i < Turns::came.size(); ++i) ASSERT_EQ(Turns::came[i], Turns::drawn[i]) << i;
    }
  }
}

TYPED_TEST(Sampling, EachSampleIsToldAndReturnedOnce) {
  this->in_thread([] {
    std::mt19937 random(3);
    std::vector<std::pair<char*, std::size_t>> live;
    for (int step = 0; step < (test::kSanitized ? 50'000 : 200'000); ++step) {
      if (live.size() > 2'000 || (!live.empty() && random() % 2 == 0)) {
        std::swap(live[random() % live.size()], live.back());
        auto [block, bytes] = live.back();
        for (std::size_t i = 0; i < bytes; i += 37) ASSERT_EQ(block[i], static_cast<char>(bytes));
        live.pop_back();
        TypeParam::free(block);
      } else {
        const std::size_t bytes = random() % (random() % 100 == 0 ? 2'000'000 : 700);
        const std::size_t alignment = random() % 10 == 0 ? 32u << random() % 8 : 16;
        auto* block = static_cast<char*>(TypeParam::allocate_aligned(bytes, alignment));
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % (bytes <= 8 && alignment == 16 ? 8 : alignment), 0u);
        ASSERT_GE(TypeParam::usable(block), bytes);
        std::memset(block, static_cast<char>(bytes), bytes);
        live.emplace_back(block, bytes);
      }
    }
    for (const auto& [block, bytes] : live) TypeParam::free(block);
  });
  EXPECT_FALSE(listener().twice);
  EXPECT_TRUE(listener().live.empty());
  EXPECT_GT(listener().sampled, test::kSanitized ? 1'250u : 5'000u);
}

TYPED_TEST(Sampling, WhatWasFreedLastIsHandedOutFirst) {
  this->in_thread([] {
    void* last = nullptr;
    for (int i = 0; i < 1'000; ++i) {
      void* block = TypeParam::allocate(48);
      if (listener().live.contains(block)) {
        TypeParam::free(block);
        continue;
      }
      if (last != nullptr) {
        ASSERT_EQ(block, last);
      }
      last = block;
      TypeParam::free(block);
    }
  });
  EXPECT_GT(listener().sampled, 50u);
}

TYPED_TEST(Sampling, WhoListensLaterHearsOfClassesInUse) {
  std::thread([] {
    const auto pairs = [](int count) {
      for (int i = 0; i < count; ++i) TypeParam::free(TypeParam::allocate(64));
    };
    pairs(5'000);
    test::listen(test::kTestEvents);
    pairs(2'000);
  }).join();
  EXPECT_GT(listener().sampled, 20u);
}

TYPED_TEST(Sampling, ASampleIsAsLargeAsAnyBlockOfItsClass) {
  this->in_thread([] {
    for (const std::size_t bytes : {1ul, 24ul, 100ul, 300ul, 500ul}) {
      std::size_t usable = 0, samples = 0;
      for (int i = 0; i < 200; ++i) {
        void* block = TypeParam::allocate(bytes);
        const auto told = listener().live.find(block);
        if (told != listener().live.end()) {
          ++samples;
          EXPECT_EQ(told->second.bytes, bytes);
          EXPECT_EQ(told->second.counted, TypeParam::usable(block));
          EXPECT_EQ(told->second.log2_interval, test::kTestInterval);
        }
        if (usable == 0) usable = TypeParam::usable(block);
        EXPECT_EQ(TypeParam::usable(block), usable);
        TypeParam::free(block);
      }
      EXPECT_GT(samples, 5u);
    }
  });
}

TYPED_TEST(Sampling, ASampleThatIsResizedInPlaceStaysOne) {
  this->in_thread([] {
    int samples = 0;
    for (int i = 0; i < 1'000; ++i) {
      void* block = TypeParam::allocate(200);
      const std::size_t usable = TypeParam::usable(block);
      const bool sample = listener().live.contains(block);
      samples += sample;
      EXPECT_TRUE(TypeParam::resize(block, usable - 1));
      EXPECT_EQ(listener().live.contains(block), sample);
      if (sample) {
        EXPECT_EQ(listener().live.at(block).bytes, usable - 1);
      }
      EXPECT_FALSE(TypeParam::resize(block, usable + 1));
      EXPECT_FALSE(TypeParam::resize(block, 1));
      TypeParam::free(block);
    }
    EXPECT_GT(samples, 50);
  });
  EXPECT_TRUE(listener().live.empty());
}

TYPED_TEST(Sampling, ZeroedMemoryIsZeroInASampleToo) {
  this->in_thread([] {
    for (int i = 0; i < 3'000; ++i) {
      auto* block = static_cast<unsigned char*>(TypeParam::allocate_zeroed(300));
      for (int at = 0; at < 300; ++at) ASSERT_EQ(block[at], 0);
      std::memset(block, 0xEE, 300);
      TypeParam::free(block);
    }
  });
}

TYPED_TEST(Sampling, ManyThreadsEachHaveTurnsOfTheirOwn) {
  test::listen(test::kTestEvents);
  listener().most_passes = 1'000;
  std::vector<std::thread> threads;
  constexpr int kThreads = 4, kEach = 100'000;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kEach; ++i) TypeParam::free(TypeParam::allocate(64));
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A draw is 499.5 on average; its standard deviation 289.
  const double expected = kThreads * kEach / 500.5, deviation = 0.58 * std::sqrt(expected);
  EXPECT_NEAR(static_cast<double>(listener().sampled), expected, 5 * deviation);
  EXPECT_EQ(listener().sampled, listener().returned);
}

}  // namespace
}  // namespace heapyard
