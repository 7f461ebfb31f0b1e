// SPDX-License-Identifier: Apache-2.0
// Intervals of a program's mappings against a page-by-page record of who mapped what; and how often the collector
// looks.
#include "tracer/collector/program_mappings.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>

#include "tracer/collector/account_pace.hpp"

namespace {

using heapyard::tracer::AccountPace;
using heapyard::tracer::kPage;
using heapyard::tracer::ProgramMappings;

constexpr std::uint64_t kPages = 64;

TEST(ProgramMappings, AreWhatEachPageWasMappedByLast) {
  std::mt19937 random(7);
  for (int run = 0; run < 200; ++run) {
    ProgramMappings mappings;
    std::array<std::uint32_t, kPages> owner{};  // 0: nobody
    for (std::uint32_t step = 1; step <= 60; ++step) {
      const std::uint64_t from = random() % kPages, count = random() % (kPages - from) + 1;
      const bool maps = random() % 3 != 0;
      const std::uint64_t bytes = count * kPage - random() % kPage;  // as a program asks, not whole pages
      if (maps)
        mappings.add(from * kPage, bytes, step);
      else
        mappings.remove(from * kPage, bytes);
      for (std::uint64_t page = from; page < from + count; ++page) owner[page] = maps ? step : 0;
    }
    std::array<std::uint32_t, kPages> told{};
    mappings.each_within(0, kPages * kPage, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t chain) {
      for (std::uint64_t page = begin / kPage; page < end / kPage; ++page) {
        EXPECT_EQ(told[page], 0u);  // no two overlap
        told[page] = chain;
      }
    });
    ASSERT_EQ(told, owner);
  }
}

TEST(ProgramMappings, AreCutToWhatIsAskedFor) {
  ProgramMappings mappings;
  mappings.add(0, 10 * kPage, 1);
  unsigned calls = 0;
  mappings.each_within(3 * kPage, 5 * kPage, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t chain) {
    EXPECT_EQ(begin, 3 * kPage);
    EXPECT_EQ(end, 5 * kPage);
    EXPECT_EQ(chain, 1u);
    ++calls;
  });
  EXPECT_EQ(calls, 1u);
  mappings.remove(0, 0);
  mappings.add(~std::uint64_t{0} - kPage, 4 * kPage, 2);  // beyond the end of addresses: nothing
  mappings.each_within(10 * kPage, ~std::uint64_t{0}, [](auto...) { ADD_FAILURE(); });
}

// However fast the program grows and however often it asks.
TEST(AccountPace, LooksTakeAHundredthOfTheRunAndALittleAtItsBeginning) {
  for (const std::uint64_t took : {100u, 5'000u, 60'000u}) {
    AccountPace pace;
    std::uint64_t spent = 0;
    unsigned looks = 0;
    for (std::uint64_t now = 0; now < 100'000'000; now += 10'000) {
      pace.ask();
      if (!pace.due(now, static_cast<std::int64_t>(now) * 1000)) continue;
      pace.begin_look();
      pace.end_look(now, static_cast<std::int64_t>(now) * 1000, took);
      spent += took;
      ++looks;
      EXPECT_LE(spent, 50'000 + now / 100 + took);
    }
    EXPECT_GE(looks, 10u);
  }
}

TEST(AccountPace, KeepsHalfOfItsTimeForWhoAsks) {
  AccountPace pace;
  std::int64_t resident = 1 << 20;
  unsigned looks = 0;
  for (std::uint64_t now = 100'000; now < 1'000'000; now += 20'000) {
    resident *= 2;
    if (!pace.due(now, resident / 4)) continue;
    pace.begin_look();
    pace.end_look(now, resident / 4, 9'000);
    ++looks;
    if (resident > std::int64_t{1} << 50) break;
  }
  EXPECT_GE(looks, 2u);
  EXPECT_LE(looks, 4u);
  pace.ask();
  EXPECT_TRUE(pace.due(1'000'000, 1 << 20));
}

TEST(AccountPace, LooksAtEachTwentiethOfGrowthAndNowAndThen) {
  AccountPace pace;
  constexpr std::int64_t kMiB = 1 << 20;
  EXPECT_FALSE(pace.due(10'000, 100 * kMiB));  // of a build's many programs most have ended by then
  ASSERT_TRUE(pace.due(60'000, 100 * kMiB));
  pace.begin_look();
  pace.end_look(60'000, 100 * kMiB, 10);
  EXPECT_FALSE(pace.due(1'000'000, 104 * kMiB));
  EXPECT_TRUE(pace.due(1'000'000, 106 * kMiB));
  EXPECT_FALSE(pace.due(70'000, 106 * kMiB));     // too soon
  EXPECT_TRUE(pace.due(11'000'000, 100 * kMiB));  // now and then
  EXPECT_FALSE(pace.due(1'000'000, 90 * kMiB));
  EXPECT_TRUE(pace.due(1'000'000, 80 * kMiB));  // shrunk by an eighth
}

// Growth without end spends what there is bit by bit; where it rests, there is a look however dear.
TEST(AccountPace, LooksWhereGrowthComesToRest) {
  AccountPace pace;
  std::int64_t resident = 10 << 20;
  std::uint64_t now = 60'000;
  const auto look = [&] {
    pace.begin_look();
    pace.end_look(now, resident, 3'000);
  };
  unsigned growing = 0;
  for (; resident < 90 << 20; now += 10'000, resident += 2 << 20) {
    if (!pace.due(now, resident)) continue;
    look();
    ++growing;
  }
  EXPECT_GE(growing, 4u);
  EXPECT_LE(growing, 7u);
  bool seen = false;
  for (const std::uint64_t end = now + 100'000; now < end; now += 10'000) {
    if (!pace.due(now, resident)) continue;
    EXPECT_FALSE(seen);  // once
    seen = true;
    look();
  }
  EXPECT_TRUE(seen);
}

}  // namespace
