// The coalescer against a set, also as a child finds it whose parent was forked while a thread was in the middle of it.
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

TEST(Coalescer, AChildThatFlushesFreesNothingTwice) {
  FakeSlab slabs[5];
  Few coalescer;
  std::mt19937 random(2);
  std::set<Object> put;
  std::multiset<Object> freed;
  int children = 0;
  const auto free = [&](FakeSlab* slab, std::size_t word, std::uint64_t bits) {
    std::multiset<Object> out;
    note(out, slab, word, bits);
    Few child = coalescer;  // as the fork of another thread finds it, in the middle of this call
    std::multiset<Object> by_child;
    child.flush([&](FakeSlab* s, std::size_t w, std::uint64_t b) { note(by_child, s, w, b); });
    for (const Object& one : by_child) {
      ASSERT_FALSE(out.contains(one));
      ASSERT_FALSE(freed.contains(one));
      ASSERT_TRUE(put.contains(one));
    }
    freed.merge(out);
    ++children;
  };
  for (int i = 0; i < 400; ++i) {
    const Object at{&slabs[random() % 5], random() % 256};
    if (put.insert(at).second) coalescer.add(at.first, object(at.second), free);
  }
  coalescer.flush(free);
  EXPECT_EQ(freed.size(), put.size());
  EXPECT_GT(children, 100);
}

}  // namespace
}  // namespace heapyard
