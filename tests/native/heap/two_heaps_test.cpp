// SPDX-License-Identifier: Apache-2.0
// Two heaps of the same layers in one process: what a thread, a pool or a tree of one holds is never of the other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#include "forked_child.hpp"
#include "heap/allocators/bfm.hpp"
#include "heap/allocators/elfmalloc.hpp"
#include "heap/allocators/scalloc.hpp"

namespace heapyard {
namespace {

struct Left;
struct Right;

// Side: what tells the two apart. All else is the same.
template <class Side>
using BfmOf = HeapShell<BfmParts<BfmSteps, 8, kBfmDepth, GiveBack, os::SystemPages, HugeSteps, NotSampled, Side>>;
template <class Side>
using BfmWithoutCacheOf = HeapShell<BfmPartsNoCache<BfmSteps, 8, os::SystemPages, HugeSteps, Side>>;
template <class Side>
using ScallocOf = HeapShell<ScallocParts<ScallocDefaults, Side>>;
template <class Side>
using ScallocPerCoreOf = HeapShell<ScallocParts<ScallocPerCore, Side>>;
template <class Side>
using ElfmallocOf = HeapShell<ElfmallocParts<MagazineCapacity, os::SystemPages,
                                             VirtualSpans<os::SystemPages, policy::slab::kBigPage>, NotSampled, Side>>;

template <template <class> class Of>
struct Pair {
  using One = Of<Left>;
  using Other = Of<Right>;
};

// Pages on which blocks of a heap lay, ever. A heap that gives nothing back keeps them.
class Pages {
 public:
  void add(void* block) {
    const std::lock_guard guard(lock_);
    pages_.insert(reinterpret_cast<std::uintptr_t>(block) >> 12);
  }
  bool meets(const Pages& other) const {
    for (const std::uintptr_t page : pages_) {
      if (other.pages_.count(page) != 0) return true;
    }
    return false;
  }

 private:
  std::mutex lock_;
  std::set<std::uintptr_t> pages_;
};

constexpr std::array<std::size_t, 6> kSizes = {8, 24, 100, 200, 350, 500};

template <class P>
class TwoHeaps : public testing::Test {};
using Pairs =
    testing::Types<Pair<BfmOf>, Pair<BfmWithoutCacheOf>, Pair<ScallocOf>, Pair<ScallocPerCoreOf>, Pair<ElfmallocOf>>;
TYPED_TEST_SUITE(TwoHeaps, Pairs);

// One thread allocates and frees in both by turns, so that each finds in its cache what the other has just put there,
// if they share it.
TYPED_TEST(TwoHeaps, WhatOneFreesTheOtherNeverHandsOut) {
  using One = typename TypeParam::One;
  using Other = typename TypeParam::Other;
  static_assert(!std::is_same_v<One, Other>);
  One::begin();
  Other::begin();
  Pages of_one, of_other;
  for (int turn = 0; turn < 2000; ++turn) {
    const std::size_t bytes = kSizes[static_cast<std::size_t>(turn) % kSizes.size()];
    void* first = One::allocate(bytes);
    ASSERT_NE(first, nullptr);
    of_one.add(first);
    One::free(first);
    void* second = Other::allocate(bytes);
    ASSERT_NE(second, nullptr);
    of_other.add(second);
    EXPECT_NE(first, second);
    Other::free(second);
  }
  EXPECT_FALSE(of_one.meets(of_other));
}

// Several threads use both; blocks cross threads, and threads end while their blocks live.
TYPED_TEST(TwoHeaps, ThreadsThatUseBothKeepThemApart) {
  using One = typename TypeParam::One;
  using Other = typename TypeParam::Other;
  const std::size_t one_before = One::usage().held(), other_before = Other::usage().held();
  Pages of_one, of_other;
  constexpr unsigned kThreads = 4, kSlots = 64, kTurns = 4000;
  static std::array<std::atomic<void*>, kSlots> one_slots, other_slots;
  const auto put = [](std::atomic<void*>& slot, void* block, auto free) {
    void* before = slot.exchange(block);
    if (before != nullptr) free(before);
  };
  for (int generation = 0; generation < 3; ++generation) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (unsigned turn = 0; turn < kTurns; ++turn) {
          const std::size_t bytes = kSizes[(turn + t) % kSizes.size()];
          void* block = One::allocate(bytes);
          of_one.add(block);
          std::memset(block, 1, bytes);
          put(one_slots[(turn * 7 + t) % kSlots], block, One::free);
          block = Other::allocate(bytes);
          of_other.add(block);
          std::memset(block, 2, bytes);
          put(other_slots[(turn * 5 + t) % kSlots], block, Other::free);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_FALSE(of_one.meets(of_other));
  // Each counts what is its own: the blocks in the slots, and then nothing.
  EXPECT_GT(One::usage().held(), one_before);
  for (auto& slot : one_slots) put(slot, nullptr, One::free);
  EXPECT_EQ(One::usage().held(), one_before);
  EXPECT_GT(Other::usage().held(), other_before);
  for (auto& slot : other_slots) put(slot, nullptr, Other::free);
  EXPECT_EQ(Other::usage().held(), other_before);
}

// The child of a fork takes over what its parent's threads held, in each heap for itself.
TYPED_TEST(TwoHeaps, AForkLeavesBothWhole) {
  using One = typename TypeParam::One;
  using Other = typename TypeParam::Other;
  One::begin();
  Other::begin();
  std::atomic<bool> done{false};
  std::thread beside([&] {
    while (!done) {
      One::free(One::allocate(100));
      Other::free(Other::allocate(100));
    }
  });
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      void* first = One::allocate(100);
      void* second = Other::allocate(100);
      const bool right = first != nullptr && second != nullptr && first != second;
      One::free(first);
      Other::free(second);
      test::end_child(right && One::usage().free <= One::usage().mapped &&
                      Other::usage().free <= Other::usage().mapped);
    }
    EXPECT_TRUE(test::ended_well(child));
  }
  done = true;
  beside.join();
}

}  // namespace
}  // namespace heapyard
