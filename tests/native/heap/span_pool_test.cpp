// SPDX-License-Identifier: Apache-2.0
// The pool of free spans where memory is short: the classes that waste it get what is there, and nothing new.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "heap/core/concurrency.hpp"
#include "heap/layers/backend/span_pool.hpp"
#include "heap/policy/scalloc_classes.hpp"

namespace heapyard {
namespace {

struct Classes {
  static constexpr unsigned kClasses = 2, kSlots = 1, kFine = 1;
  static constexpr std::array<policy::SpanShape, 2> kShapes = {{{16, 1, 64, 0}, {32, 1, 64, 0}}};
};

struct Span {
  using Concurrency = core::Concurrency;
  Concurrency::Atomic<Span*> link{nullptr};
  Span* before = nullptr;
  std::uint32_t there = 64;
  static unsigned in_class() { return 0; }
};

struct ShortSpans {
  void* allocate(std::size_t bytes, std::size_t& there) {
    there = bytes;
    return made == spans.size() ? nullptr : &spans[made++];
  }
  static bool extend(void*, std::size_t, std::size_t&) { return true; }
  static void give_back(void*, std::size_t&, bool) {}
  bool sparing() const { return is_short; }
  std::array<Span, 4> spans;
  std::size_t made = 0;
  bool is_short = false;
};

TEST(SpanPool, NoSpanIsMadeForAClassThatWastesWhereMemoryIsShort) {
  ShortSpans spans;
  SpanPool<Classes, Span, ShortSpans, NoMadvise, 1> pool{spans};
  pool.expect_waste(1, true);
  Span* const first = pool.get(1, 0);
  EXPECT_NE(first, nullptr);  // memory is plenty
  spans.is_short = true;
  EXPECT_EQ(pool.get(1, 0), nullptr);
  EXPECT_NE(pool.get(0, 0), nullptr);  // who fills it
  pool.put(first, 0);
  EXPECT_EQ(pool.get(1, 0), first);  // what is there serves
  EXPECT_EQ(pool.get(1, 0), nullptr);
  pool.expect_waste(1, false);
  EXPECT_NE(pool.get(1, 0), nullptr);
}

}  // namespace
}  // namespace heapyard
