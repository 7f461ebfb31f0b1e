// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/script_places.hpp"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

namespace {

using heapyard::tracer::ScriptPlaces;

TEST(ScriptPlaces, ThreadsFindTheSamePlaceAndNoOther) {
  constexpr unsigned kThreads = 4, kHashes = 20'000;
  ScriptPlaces places;
  ASSERT_TRUE(places.prepare());
  std::vector<std::vector<std::uint32_t>> numbers(kThreads, std::vector<std::uint32_t>(kHashes));
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned turn = 0; turn < kHashes; ++turn) {
        const unsigned index = (turn * 7919 + thread) % kHashes;
        const ScriptPlaces::Place* place = places.at((std::uint64_t{index} + 1) * 0x9e3779b97f4a7c15u);
        numbers[thread][index] = place == nullptr ? 0 : places.number_of(place);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::uint32_t, unsigned> by_number;
  for (unsigned index = 0; index < kHashes; ++index) {
    for (const auto& found : numbers) ASSERT_EQ(found[index], numbers[0][index]);
    ASSERT_NE(numbers[0][index], 0u);
    ++by_number[numbers[0][index]];
  }
  EXPECT_EQ(by_number.size(), kHashes);
}

TEST(ScriptPlaces, WhereThereIsNoRoomThereIsNone) {
  ScriptPlaces places;
  ASSERT_TRUE(places.prepare());
  unsigned found = 0, refused = 0;
  for (std::uint64_t index = 1; index < 300; ++index)  // all begin at the same place
    (places.at(index << 32) != nullptr ? found : refused) += 1;
  EXPECT_GT(found, 0u);
  EXPECT_GT(refused, 0u);
  EXPECT_NE(places.at(std::uint64_t{1} << 32), nullptr);  // who came first stays
}

}  // namespace
