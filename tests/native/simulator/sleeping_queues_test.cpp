// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/sleeping_queues.hpp"

#include <gtest/gtest.h>

namespace {

using heapyard::simulator::SleepingQueues;
using heapyard::simulator::ThreadNumber;
using Threads = std::vector<ThreadNumber>;

TEST(SleepingQueues, FirstInFirstOut) {
  SleepingQueues queues;
  for (ThreadNumber thread = 1; thread <= 4; ++thread) queues.add(0x100, thread, ~0u);
  queues.add(0x200, 9, ~0u);
  EXPECT_EQ(queues.take(0x100, 1, ~0u), Threads({1}));
  EXPECT_EQ(queues.take(0x100, 2, ~0u), Threads({2, 3}));
  queues.remove(4);
  EXPECT_EQ(queues.take(0x100, 9, ~0u), Threads());
  EXPECT_EQ(queues.take(0x200, 9, ~0u), Threads({9}));
}

TEST(SleepingQueues, WakesWhoseBitsMeet) {
  SleepingQueues queues;
  queues.add(0x100, 1, 1);
  queues.add(0x100, 2, 2);
  queues.add(0x100, 3, 3);
  EXPECT_EQ(queues.take(0x100, 9, 2), Threads({2, 3}));
}

TEST(SleepingQueues, MovedSleepersKeepTheirOrderAndBits) {
  SleepingQueues queues;
  queues.add(0x200, 7, ~0u);
  queues.add(0x100, 1, 1);
  queues.add(0x100, 2, 2);
  queues.move(0x100, 0x200, 9);
  EXPECT_EQ(queues.take(0x200, 9, 1), Threads({7, 1}));
  EXPECT_EQ(queues.take(0x200, 9, 2), Threads({2}));
}

}  // namespace
