// SPDX-License-Identifier: Apache-2.0
// The queue of leak_window: the newest objects within a budget of bytes, the oldest released first, none twice.
#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "mutators/leak_window/fifo.hpp"

namespace heapyard::leak_window {
namespace {

// Gives out real memory and remembers what was released.
struct FakeHeap {
  std::deque<std::vector<std::uint8_t>> blocks;
  std::vector<std::uint64_t> released;
  std::uint64_t live = 0;
  void* allocate(std::uint64_t size, std::uint64_t) { return blocks.emplace_back(size).data(); }
  void release(void*, std::uint64_t number) { released.push_back(number); }
  void hold(std::uint64_t bytes) { live += bytes; }
  void drop(std::uint64_t bytes) { live -= bytes; }
  void saw(std::uint64_t) {}
};

TEST(Fifo, HoldsTheNewestBytesForEverySmallBudget) {
  for (std::uint64_t budget = 10; budget <= 40; ++budget) {
    kit::Arena arena;
    arena.reserve(Fifo::bytes(budget, 1));
    Fifo fifo;
    fifo.prepare(arena, budget, 1, 100);
    FakeHeap heap;
    std::vector<std::uint64_t> sizes;
    Random random(budget);
    for (int i = 0; i < 200; ++i) {
      sizes.push_back(random.between(1, 10));
      fifo.add(sizes.back(), heap);
      ASSERT_LE(heap.live, budget);
      const std::uint64_t oldest_held = heap.released.size();
      ASSERT_TRUE(oldest_held == 0 || heap.live + sizes[oldest_held - 1] > budget) << "released too early";
    }
    fifo.drain(heap);
    EXPECT_EQ(heap.live, 0u);
    ASSERT_EQ(heap.released.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(heap.released[i], 100 + i);
  }
}

}  // namespace
}  // namespace heapyard::leak_window
