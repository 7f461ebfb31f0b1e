// SPDX-License-Identifier: Apache-2.0
// Octaves: every power of two is as likely, and no number outside the range is ever drawn.
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "mutators/kit/octaves.hpp"

namespace heapyard::kit {
namespace {

TEST(Octaves, EachIsAsLikelyAndBothEndsAreReached) {
  const Octaves octaves(5, 70);  // 5..7, 8..15, 16..31, 32..63, 64..70
  ASSERT_EQ(octaves.count(), 5u);
  Random random(3);
  std::map<std::uint64_t, int> values, powers;
  for (int i = 0; i < 50'000; ++i) {
    const std::uint64_t value = octaves.draw(random);
    ASSERT_GE(value, 5u);
    ASSERT_LE(value, 70u);
    ++values[value];
    ++powers[std::bit_floor(value)];
  }
  EXPECT_EQ(values.size(), 66u);
  for (const auto& [power, count] : powers) EXPECT_NEAR(count, 10'000, 450) << power;  // five standard deviations
}

TEST(Octaves, OneOfThemStaysWithinItself) {
  const Octaves octaves(1, 1023);
  Random random(3);
  for (std::uint64_t index = 0; index < octaves.count(); ++index)
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(std::bit_width(octaves.draw_of(index, random)) - 1u, index);
}

TEST(Octaves, ARangeOfOneNumberHasOneOctave) {
  Random random(3);
  for (const std::uint64_t only : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{1} << 62}) {
    EXPECT_EQ(Octaves(only, only).count(), 1u);
    EXPECT_EQ(Octaves(only, only).draw(random), only);
  }
}

}  // namespace
}  // namespace heapyard::kit
