// SPDX-License-Identifier: Apache-2.0
// The coalescer against a set.
#include "heap/layers/frontend/coalescer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <utility>

namespace heapyard {
namespace {

struct FakeSlab {
  std::uint64_t* words() { return bitset; }
  std::size_t bit_of(void* object) const { return reinterpret_cast<std::uintptr_t>(object); }
  std::uint64_t bitset[4];
};
using Few = Coalescer<FakeSlab, 4>;  // words meet in a cell all the time
using Object = std::pair<FakeSlab*, std::size_t>;

void* object(std::size_t bit) { return reinterpret_cast<void*>(bit); }

void note(std::multiset<Object>& freed, FakeSlab* slab, std::size_t word, std::uint64_t bits) {
  ASSERT_NE(slab, nullptr);
  ASSERT_NE(bits, 0u);
  for (; bits != 0; bits &= bits - 1) freed.emplace(slab, word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
}

TEST(Coalescer, LetsEachObjectOutOnce) {
  FakeSlab slabs[5];
  Few coalescer;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::set<Object> put;
    std::multiset<Object> freed;
    const auto free = [&](FakeSlab* slab, std::size_t word, std::uint64_t bits) { note(freed, slab, word, bits); };
    for (int i = 0; i < 200; ++i) {
      const Object at{&slabs[random() % 5], random() % 256};
      if (put.insert(at).second) coalescer.add(at.first, object(at.second), free);
    }
    coalescer.flush(free);
    EXPECT_EQ(std::multiset<Object>(put.begin(), put.end()), freed);
  }
}

}  // namespace
}  // namespace heapyard
