// SPDX-License-Identifier: Apache-2.0
// The slot buffer of shbench, for every small number of slots and every window: nothing is lost, lives are bounded.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "mutators/shbench/size_cycle.hpp"
#include "mutators/shbench/slot_buffer.hpp"

namespace heapyard::shbench {
namespace {

// Objects are their own serial numbers; remembers when each was released.
struct FakeHeap {
  std::map<std::uintptr_t, std::uint64_t> released;
  std::uint64_t put = 0;
  void release(void* object, std::uint64_t) {
    ASSERT_TRUE(released.emplace(reinterpret_cast<std::uintptr_t>(object), put).second) << "released twice";
  }
};

TEST(SlotBuffer, EveryObjectIsReleasedOnceAndSurvivorsLiveForAtMostTwoTurns) {
  for (std::uint64_t count = 1; count <= 23; ++count) {
    for (std::uint64_t window = 0; window <= count / 2; ++window) {
      std::vector<void*> slots(count);
      SlotBuffer buffer(slots.data(), count, window);
      FakeHeap heap;
      const std::uint64_t objects = 7 * count + 3;
      for (std::uint64_t i = 1; i <= objects; ++i) {
        ASSERT_LT(buffer.next(), count);
        ++heap.put;
        buffer.put(reinterpret_cast<void*>(i), heap);
        // Never more than the slots are held.
        ASSERT_LE(i - heap.released.size(), count);
      }
      buffer.drain(heap);
      ASSERT_EQ(heap.released.size(), objects) << count << " slots, window " << window;
      for (const auto& [object, when] : heap.released) ASSERT_LE(when - object, 2 * count);
    }
  }
}

TEST(SizeCycle, BasesGrowByHalvesAndAreHalvedDownToTheLeastSize) {
  SizeRun runs[kMostRuns];
  SizeCycle cycle{runs};
  sweep_of_sh6(cycle, 1, 8);
  EXPECT_EQ(cycle.objects, 2250u);
  SizeCycle wide{runs};
  sweep_of_sh6(wide, 1, 1000);
  EXPECT_EQ(wide.objects, 19'300u);
  SizeCycle widest{runs};
  sweep_of_sh6(widest, 1, 1 << 30);
  EXPECT_LT(widest.length, kMostRuns);
  SizeCycle narrow{runs};
  sweep_of_sh6(narrow, 40, 41);
  ASSERT_EQ(narrow.length, 1u);
  EXPECT_EQ(runs[0].size, 40u);
}

}  // namespace
}  // namespace heapyard::shbench
