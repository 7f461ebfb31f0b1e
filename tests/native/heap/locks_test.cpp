// SPDX-License-Identifier: Apache-2.0
// What threads share beneath all layers: the lock, and the stack of frees put aside.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "heap/core/free_stack.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {
namespace {

TEST(FreeStack, EachBlockIsWorkedOffOnceThoughManyPushAndTake) {
  core::FreeStack stack;
  struct Item {
    void* link;
    std::atomic<int> freed{0};
  };
  std::vector<Item> items(40'000);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < items.size(); i += 4) {
        stack.push(&items[i].link);
        if (i % 3 == 0) stack.work_off(8, [](void* item) { ++reinterpret_cast<Item*>(item)->freed; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (!stack.empty()) stack.work_off(8, [](void* item) { ++reinterpret_cast<Item*>(item)->freed; });
  for (const Item& item : items) ASSERT_EQ(item.freed.load(), 1);
}

TEST(Lock, KeepsThreadsApart) {
  os::Lock lock;
  long count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const os::Locked locked(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 160'000);
}

}  // namespace
}  // namespace heapyard
