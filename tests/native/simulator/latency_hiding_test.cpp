// SPDX-License-Identifier: Apache-2.0
// What a core does not wait for: its stores, and loads whose values it does not use yet.
#include <gtest/gtest.h>

#include "simulator/model/load_window.hpp"
#include "simulator/model/store_buffer.hpp"

namespace {

using namespace heapyard::simulator;

constexpr std::size_t kRoom = 4;

TEST(StoreBuffer, StoresDoNotHoldTheCoreUpUntilThereIsNoRoom) {
  StoreBuffer buffer;
  for (Line line = 1; line <= kRoom; ++line) EXPECT_EQ(buffer.put(line, 10, 10 + 100 * line, kRoom), 10u);
  EXPECT_EQ(buffer.put(9, 10, 20, kRoom), 110u) << "the first has to leave";
  EXPECT_EQ(buffer.drain(110), 410u) << "a line that is there early leaves after those before it";
  EXPECT_TRUE(buffer.is_empty(0));
  EXPECT_EQ(buffer.drain(7), 7u);
}

TEST(StoreBuffer, HoldsALineUntilItsStoreHasLeft) {
  StoreBuffer buffer;
  buffer.put(5, 0, 100, kRoom);
  EXPECT_TRUE(buffer.holds(5, 99));
  EXPECT_FALSE(buffer.holds(5, 100));
  EXPECT_FALSE(buffer.holds(6, 0));
}

constexpr std::uint64_t kPointer = 0x7f0000001000, kFarAway = 0x10;

TEST(LoadWindow, APointerThatIsFollowedWaitsForItsLoad) {
  LoadWindow window;
  EXPECT_EQ(window.put(kPointer, 300, 256, 0), 0u);
  EXPECT_EQ(window.ready(kFarAway, 5), 5u);
  EXPECT_EQ(window.ready(kPointer + 8, 5), 300u) << "a member of the object";
  EXPECT_EQ(window.ready(kPointer - 8, 5), 5u);
}

TEST(LoadWindow, TheCoreGoesOnUntilItsReorderBufferIsFull) {
  LoadWindow window;
  window.put(kPointer, 300, 256, 0);
  EXPECT_EQ(window.reach(255, 80), 80u);
  EXPECT_EQ(window.reach(256, 81), 300u);
  EXPECT_TRUE(window.is_empty());
}

TEST(LoadWindow, LoadsOverlap) {
  LoadWindow window;
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(window.put(0, 300 + i, 256 + i, i), i);
  EXPECT_EQ(window.drain(4), 303u) << "together they take little more than one";
}

TEST(LoadWindow, TooManyAtOnceWaitForTheFirst) {
  LoadWindow window;
  std::uint64_t now = 0;
  int loads = 0;
  while (now == 0) now = window.put(0, 300, 1000, now), ++loads;
  EXPECT_EQ(now, 300u);
  EXPECT_GE(loads, 10) << "fewer than any of the machines has";
}

}  // namespace
