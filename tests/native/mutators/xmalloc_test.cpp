// SPDX-License-Identifier: Apache-2.0
// The depot of xmalloc: bounded, in either order, and nothing is lost or given out twice among many threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "mutators/xmalloc/depot.hpp"

namespace heapyard::xmalloc {
namespace {

class DepotTest : public testing::Test {
 protected:
  Depot<int>& prepared(std::size_t room, std::size_t producers, bool last_first) {
    arena_.reserve(1 << 12);
    depot_.prepare(arena_, room, producers, last_first);
    return depot_;
  }

 private:
  kit::Arena arena_;
  Depot<int> depot_;
};

class DepotOrderTest : public DepotTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(BothOrders, DepotOrderTest, testing::Bool());

TEST_P(DepotOrderTest, GivesOutInItsOrderRoundAfterRound) {
  Depot<int>& depot = prepared(4, 1, GetParam());
  int items[4];
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) depot.put(&items[i]);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(depot.take(), &items[GetParam() ? 2 - i : i]);
  }
  depot.put(&items[3]);
  depot.leave();
  EXPECT_EQ(depot.take(), &items[3]);  // what was left behind is still given out
  EXPECT_EQ(depot.take(), nullptr);
}

TEST_P(DepotOrderTest, LosesNothingAmongManyThreads) {
  constexpr int kProducers = 3, kConsumers = 4, kItems = 5000;
  Depot<int>& depot = prepared(2, kProducers, GetParam());
  std::vector<int> items(kProducers * kItems);
  std::vector<std::ptrdiff_t> taken;
  std::mutex lock;
  std::vector<std::thread> threads;
  for (int p = 0; p < kProducers; ++p)
    threads.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) depot.put(&items[static_cast<std::size_t>(p * kItems + i)]);
      depot.leave();
    });
  for (int c = 0; c < kConsumers; ++c)
    threads.emplace_back([&] {
      std::vector<std::ptrdiff_t> mine;
      while (const int* const item = depot.take()) mine.push_back(item - items.data());
      const std::lock_guard guard(lock);
      taken.insert(taken.end(), mine.begin(), mine.end());
    });
  for (std::thread& thread : threads) thread.join();
  std::sort(taken.begin(), taken.end());
  std::vector<std::ptrdiff_t> all(items.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(taken, all);
}

}  // namespace
}  // namespace heapyard::xmalloc
