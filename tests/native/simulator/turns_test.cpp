// SPDX-License-Identifier: Apache-2.0
#include "simulator/model/turns.hpp"

#include <gtest/gtest.h>

namespace {

using namespace heapyard::simulator;
using State = Turns::State;

ThreadNumber run_next(Turns& turns) {
  const Turns::Choice choice = turns.next();
  if (choice.thread != kNobody) turns.run(choice);
  return choice.thread;
}

TEST(Turns, LeastTimeComesFirst) {
  Turns turns(1, 4);
  for (Ticks time : {0, 5'000'000, 1'000'000}) turns.add(time);
  EXPECT_EQ(run_next(turns), 0u);
  turns.stop(0, 3'000'000, State::kReady);
  EXPECT_EQ(run_next(turns), 2u);
  turns.stop(2, 9'000'000, State::kReady);
  EXPECT_EQ(run_next(turns), 0u);
  EXPECT_EQ(turns.time(0), 3'000'000u);
  EXPECT_EQ(run_next(turns), 1u);
}

TEST(Turns, SleeperComesWhenWokenOrAtItsDeadline) {
  Turns turns(1, 4);
  turns.add(0);
  turns.add(1'000'000);
  EXPECT_EQ(run_next(turns), 0u);
  turns.stop(0, 10, State::kAsleep, 20'000'000);
  EXPECT_EQ(run_next(turns), 1u);
  turns.stop(1, 2'000'000, State::kAsleep);
  const Turns::Choice choice = turns.next();
  EXPECT_EQ(choice.thread, 0u);
  EXPECT_EQ(choice.time, 20'000'000u);
  EXPECT_TRUE(choice.at_deadline);
  turns.wake(1, 3'000'000);
  EXPECT_EQ(turns.next().thread, 1u);
  EXPECT_EQ(turns.next().time, 3'000'000u);
  turns.stop(1, 3'000'000, State::kGone);
  turns.stop(0, 20'000'000, State::kOutside);
  EXPECT_EQ(turns.next().thread, kNobody);
}

TEST(Turns, ThreadsBeyondTheCoresShareThem) {
  Turns turns(1, 2);
  for (int i = 0; i < 3; ++i) turns.add(0);
  EXPECT_EQ(turns.core(0), 0u);
  EXPECT_EQ(turns.core(1), 1u);
  EXPECT_EQ(turns.core(2), 0u);
  // Whoever runs takes a quantum; none of those that share a core starves.
  int ran[3] = {};
  Ticks busy = 0;
  for (int turn = 0; turn < 30; ++turn) {
    const ThreadNumber thread = run_next(turns);
    ++ran[thread];
    const Ticks end = turns.time(thread) + 1'000'000;
    if (thread != 1) busy += 1'000'000;
    turns.stop(thread, end, State::kReady);
  }
  EXPECT_NEAR(ran[0], ran[2], 1);
  EXPECT_NEAR(ran[1], ran[0] + ran[2], 2) << "it has a core of its own";
  EXPECT_GE(std::max(turns.time(0), turns.time(2)), busy) << "a core does one thing at a time";
}

TEST(Turns, SeedDecidesTheOffsetsAndNothingElse) {
  Turns first(7, 64), again(7, 64), other(8, 64);
  bool differs = false;
  for (ThreadNumber thread = 0; thread < 64; ++thread) {
    first.add(100);
    again.add(100);
    other.add(100);
    EXPECT_EQ(first.time(thread), again.time(thread));
    EXPECT_GE(first.time(thread), 100u);
    EXPECT_LT(first.time(thread), 100 + 256 * kCycle);
    differs |= first.time(thread) != other.time(thread);
  }
  EXPECT_TRUE(differs);
}

}  // namespace
