// SPDX-License-Identifier: Apache-2.0
// The window of spans over a system that is only told of: which places are mapped, and what is asked under limits.
#include "heap/layers/backend/virtual_spans.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>

#include "heap/layers/backend/outside_spans.hpp"
#include "heap/os/address_space.hpp"

namespace heapyard {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kPage = 4096;

// Address space as a map from the start of a mapping to its end. Nothing is mapped in earnest.
struct ToldPages {
  static inline std::map<std::uintptr_t, std::uintptr_t> mapped;
  static inline std::set<std::uintptr_t> occupied;  // places where something of the program lies
  static inline std::size_t most, group, granted, decommitted;
  static inline unsigned looks;                  // at the group's limit
  static inline std::set<std::uintptr_t> usual;  // places of 2 MiB where huge pages are refused
  static inline bool windows, locks, strict;
  static inline std::uintptr_t kernels_place;  // of the next mapping anywhere

  static void reset() {
    mapped.clear();
    occupied.clear();
    usual.clear();
    most = group = granted = SIZE_MAX;
    looks = 0;
    decommitted = 0;
    windows = true;
    locks = strict = false;
    kernels_place = std::uintptr_t{1} << 46;
  }
  static std::size_t bytes() {
    std::size_t sum = 0;
    for (const auto& [start, end] : mapped) sum += end - start;
    return sum;
  }

  static os::AddressWindow window(std::size_t bytes, std::size_t) {
    return windows ? os::AddressWindow{std::uintptr_t{1} << 44, bytes} : os::AddressWindow{0, 0};
  }
  static os::Placed place(void* at, std::size_t bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(at);
    EXPECT_EQ(start % kPage, 0u);
    EXPECT_EQ(bytes % kPage, 0u);
    if (granted == 0) return os::Placed::refused;
    if (occupied.count(start) != 0) return os::Placed::occupied;
    const auto next = mapped.lower_bound(start);
    EXPECT_TRUE(next == mapped.end() || next->first >= start + bytes);
    EXPECT_TRUE(next == mapped.begin() || std::prev(next)->second <= start);
    --granted;
    mapped[start] = start + bytes;
    return os::Placed::done;
  }
  static void prefer_huge_pages(void*, std::size_t) { FAIL() << "spans ask for none"; }
  static void refuse_huge_pages(void* at, std::size_t bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(at);
    EXPECT_EQ((start | bytes) % (2 * kMiB), 0u);
    for (std::size_t of = 0; of < bytes; of += 2 * kMiB) usual.insert(start + of);
  }
  static bool unmap(void* at, std::size_t bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(at), end = start + bytes;
    for (auto it = mapped.begin(); it != mapped.end();) {
      const auto [from, to] = *it;
      if (to <= start || from >= end) {
        ++it;
        continue;
      }
      it = mapped.erase(it);
      if (from < start) mapped[from] = start;
      if (to > end) mapped[end] = to;
    }
    return true;
  }
  static bool decommit(void*, std::size_t bytes) {
    decommitted += bytes;
    return true;
  }
  static void* hold(std::size_t bytes, std::size_t alignment) {
    return bytes > most ? nullptr : reinterpret_cast<void*>(os::round_up(kernels_place, alignment));
  }
  static bool place_in_held(void* at, std::size_t bytes, bool back) {
    if (back) return unmap(at, bytes);
    return place(at, bytes) == os::Placed::done;
  }
  static void* map(std::size_t) { return reinterpret_cast<void*>(kernels_place); }
  static void* map_near(void* wish, std::size_t) { return wish; }
  static bool filled(void*) { return locks; }
  static std::size_t limit() { return most; }
  static std::size_t group_limit() {
    ++looks;
    return group;
  }
  static bool charges() { return strict; }
};

using Spans = VirtualSpans<ToldPages, 2 * kMiB, 32, std::size_t{1} << 40>;

class VirtualSpansTest : public testing::Test {
 protected:
  void SetUp() override { ToldPages::reset(); }

  void* get(std::size_t bytes) { return spans_.allocate(bytes, there_); }
  // After a refusal the system is not asked again at once.
  void* get_again(std::size_t bytes) {
    for (int i = 0; i < 1000; ++i) {
      if (void* span = get(bytes)) return span;
    }
    return nullptr;
  }
  static std::uintptr_t number(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

  Spans spans_;
  std::size_t there_ = 0;
};

TEST_F(VirtualSpansTest, OnlyWhatIsUsedOfASpanIsMapped) {
  spans_.reserve();
  EXPECT_EQ(ToldPages::bytes(), 0u);
  std::set<std::uintptr_t> virtual_spans;
  for (int i = 0; i < 100; ++i) {
    const auto span = number(get(32'768));
    ASSERT_TRUE(virtual_spans.insert(span / (2 * kMiB)).second);
    ASSERT_EQ(Spans::begin_of(span + 30'000), span);
    ASSERT_EQ(Spans::begin_of(span), span);
    ASSERT_TRUE(spans_.contains(reinterpret_cast<void*>(span)));
    ASSERT_GE(there_, 32'768u);
    ASSERT_LT(there_, 32'768 + kPage);
  }
  EXPECT_LE(ToldPages::bytes(), 100 * (32'768 + kPage));
}

TEST_F(VirtualSpansTest, ASpanGrowsAndGivesBackWhatIsBehindItsFirstPage) {
  spans_.reserve();
  void* span = get(32'768);
  ASSERT_TRUE(spans_.extend(span, 20'000, there_));
  ASSERT_LT(there_, 40'000u);
  ASSERT_TRUE(spans_.extend(span, kMiB, there_));
  EXPECT_GE(there_, kMiB);
  EXPECT_GE(ToldPages::bytes(), kMiB);
  spans_.give_back(span, there_, false);
  EXPECT_GE(there_, kMiB);
  EXPECT_GE(ToldPages::decommitted, kMiB - kPage);
  spans_.give_back(span, there_, true);
  EXPECT_LE(there_, kPage);
  EXPECT_EQ(ToldPages::bytes(), kPage);
  ToldPages::granted = 0;
  EXPECT_FALSE(spans_.extend(span, kMiB, there_));
  EXPECT_LE(there_, kPage);
  ToldPages::granted = 1;
  bool grown = false;
  for (int i = 0; i < 1000 && !grown; ++i) grown = spans_.extend(span, kMiB, there_);
  EXPECT_TRUE(grown);
}

TEST_F(VirtualSpansTest, WhereAHugePageWouldFitNoneIsGiven) {
  spans_.reserve();
  void* span = get(kMiB);
  ASSERT_TRUE(spans_.extend(span, 2 * kMiB - Spans::kColouring - kPage, there_));
  EXPECT_TRUE(ToldPages::usual.empty());
  ASSERT_TRUE(spans_.extend(span, 2 * kMiB - Spans::kColouring, there_));
  EXPECT_EQ(ToldPages::usual, std::set{number(span) & ~(2 * kMiB - 1)});
  get(2 * kMiB - Spans::kColouring);
  EXPECT_EQ(ToldPages::usual.size(), 2u);
}

TEST_F(VirtualSpansTest, WhereTheSystemChargesForWhatIsUntouchedMemoryGoesBackWhole) {
  ToldPages::strict = true;
  spans_.reserve();
  void* span = get(kMiB);
  spans_.give_back(span, there_, false);
  EXPECT_EQ(ToldPages::bytes(), kPage);
}

TEST_F(VirtualSpansTest, EachRefusalInTurnLosesNothing) {
  spans_.reserve();
  std::uintptr_t last = number(get(kMiB));
  for (std::size_t granted = 0; granted < 20; ++granted) {
    ToldPages::granted = granted;
    for (std::size_t i = 0; i < granted; ++i) last = number(get_again(kMiB));
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(get(kMiB), nullptr);
    ToldPages::granted = 1;
    const std::uintptr_t next = number(get_again(kMiB));
    ASSERT_EQ(next / (2 * kMiB), last / (2 * kMiB) + 1);  // the window is not used up by what was refused
    last = next;
  }
}

TEST_F(VirtualSpansTest, WhatTheProgramMappedInTheWindowIsPassedBy) {
  spans_.reserve();
  const std::uintptr_t first = number(get(kMiB)) & ~(kPage - 1);
  for (std::uintptr_t away = 1; away <= 5; ++away) {
    ToldPages::occupied.insert(Spans::begin_of(first + away * 2 * kMiB) & ~(kPage - 1));
  }
  EXPECT_EQ(number(get(kMiB)) / (2 * kMiB), first / (2 * kMiB) + 6);
}

TEST_F(VirtualSpansTest, UnderALimitSpansTakeAShareWheneverItIsSetAndMoreWhenItIsLifted) {
  spans_.reserve();
  std::size_t count = 0;
  for (; count < 10; ++count) ASSERT_NE(get(kMiB), nullptr);
  ToldPages::most = Spans::kShare * 20 * kMiB;
  for (; get(kMiB) != nullptr; ++count) ASSERT_LT(count, 20u);
  EXPECT_GE(count, 19u);
  void* small = get(kPage);  // refused for a while, whatever it is
  EXPECT_EQ(small, nullptr);
  ToldPages::most = SIZE_MAX;
  EXPECT_NE(get_again(kMiB), nullptr);
}

TEST_F(VirtualSpansTest, InAControlGroupSpansTakeAShareOfItsMemory) {
  spans_.reserve();
  ToldPages::group = Spans::kGroupShare * 100 * kMiB;
  std::size_t count = 0;
  std::size_t there = 0;
  void* const first = spans_.allocate(kMiB, there);
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(spans_.in_group());  // nobody asks for so little
  EXPECT_EQ(ToldPages::looks, 0u);
  for (; get(kMiB) != nullptr; ++count) ASSERT_LT(count, 100u);
  EXPECT_GE(count, 97u);
  EXPECT_TRUE(spans_.in_group());
  EXPECT_TRUE(spans_.took_from_group());
  EXPECT_FALSE(spans_.took_from_group());
  EXPECT_LE(ToldPages::looks, 6u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(get(kMiB), nullptr);
  EXPECT_LE(ToldPages::looks, 10u);
  // Memory that may be used again unasked still counts; what is unmapped does not.
  spans_.give_back(first, there, false);
  EXPECT_EQ(get_again(kMiB), nullptr);
  spans_.give_back(first, there, true);
  EXPECT_NE(get_again(kMiB), nullptr);
  EXPECT_EQ(get_again(kMiB), nullptr);
  ToldPages::group = SIZE_MAX;
  EXPECT_NE(get_again(kMiB), nullptr);
  EXPECT_FALSE(spans_.in_group());
}

TEST_F(VirtualSpansTest, InAControlGroupSpansAreSparedFromAnEighthOfItsMemory) {
  spans_.reserve();
  for (int i = 0; i < 100; ++i) ASSERT_NE(get(kMiB), nullptr);
  EXPECT_FALSE(spans_.sparing());  // without a group
  ToldPages::group = 4000 * kMiB;
  for (int i = 100; i < 490; ++i) ASSERT_NE(get(kMiB), nullptr);
  EXPECT_FALSE(spans_.sparing());
  for (int i = 490; i < 510; ++i) ASSERT_NE(get(kMiB), nullptr);
  EXPECT_TRUE(spans_.sparing());
  EXPECT_NE(get(kMiB), nullptr);  // for who fills it
}

TEST_F(VirtualSpansTest, WhatIsMappedWholeCountsInTheGroupAsFarAsItIsUsed) {
  spans_.reserve();
  ToldPages::group = Spans::kGroupShare * (std::size_t{1} << 40);
  for (std::size_t i = 0; i <= Spans::kApart; ++i) ASSERT_NE(get(kPage), nullptr);
  ToldPages::group = Spans::kGroupShare * (Spans::kApart + 2'000) * 3 * kPage;
  for (int i = 0; i < 500; ++i) ASSERT_NE(get(kPage), nullptr);
}

TEST_F(VirtualSpansTest, OneReservationIsHeldWhereNoPlaceCanBeAskedFor) {
  ToldPages::windows = false;
  ToldPages::most = std::size_t{1} << 32;
  spans_.reserve();
  void* span = get(kMiB);
  ASSERT_NE(span, nullptr);
  EXPECT_TRUE(spans_.contains(span));
  EXPECT_LE(spans_.end() - spans_.start(), ToldPages::most / 2);
  spans_.give_back(span, there_, true);
  EXPECT_EQ(ToldPages::bytes(), kPage);
}

TEST_F(VirtualSpansTest, TheWindowEnds) {
  VirtualSpans<ToldPages, 2 * kMiB, 1, 64 * kMiB> few;
  few.reserve();
  for (int i = 0; i < 32; ++i) ASSERT_NE(few.allocate(kMiB, there_), nullptr);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(few.allocate(kMiB, there_), nullptr);
}

TEST_F(VirtualSpansTest, TheSpansOfALargeHeapAreOneMappingButWhereMappingsAreLocked) {
  spans_.reserve();
  for (std::size_t i = 0; i < Spans::kApart; ++i) get(kPage);
  const auto span = number(get(kPage));
  EXPECT_EQ(span + there_, (span / (2 * kMiB) + 1) * 2 * kMiB);
  EXPECT_EQ(ToldPages::usual.count(span / (2 * kMiB) * (2 * kMiB)), 1u);
  ToldPages::locks = true;
  get(kPage);
  EXPECT_LE(there_, 2 * kPage);
  ToldPages::locks = false;  // no look is taken any more
  get(kPage);
  EXPECT_LE(there_, 2 * kPage);
}

struct Owner {
  static inline constinit Spans spans;
};

TEST(OutsideSpans, WhatWouldLieInTheWindowIsMappedElsewhere) {
  using Outside = OutsideSpans<ToldPages, Owner>;
  ToldPages::reset();
  Owner::spans.reserve();
  const std::uintptr_t start = Owner::spans.start(), end = Owner::spans.end();
  for (const std::uintptr_t place : {start, start - 1000 * kPage, end - kPage, start + 5 * kMiB, end, start - kMiB}) {
    ToldPages::kernels_place = place;
    for (const std::size_t bytes : {kPage, 3 * kMiB, std::size_t{8} << 30}) {
      void* memory = Outside::map(bytes);
      ASSERT_NE(memory, nullptr);
      ASSERT_FALSE(Owner::spans.meets(memory, bytes));
    }
  }
}

TEST(AddressSpace, AWindowIsFreeWideAndFarFromWhatTheSystemPlaces) {
  const os::AddressWindow window = os::free_window(std::size_t{32} << 40, 2 * kMiB);
  ASSERT_GE(window.bytes, std::size_t{1} << 36);
  EXPECT_EQ(window.start % (2 * kMiB), 0u);
  for (int i = 0; i < 100; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(os::map(kMiB));
    EXPECT_TRUE(at + kMiB <= window.start || at >= window.start + window.bytes);
    os::unmap(reinterpret_cast<void*>(at), kMiB);
  }
  auto* const inside = reinterpret_cast<char*>(window.start + window.bytes / 2);
  EXPECT_EQ(os::place(inside, kPage), os::Placed::done);
  *inside = 1;
  EXPECT_EQ(os::place(inside, kPage), os::Placed::occupied);
  EXPECT_EQ(*inside, 1);
  EXPECT_TRUE(os::unmap(inside, kPage));
}

}  // namespace
}  // namespace heapyard
