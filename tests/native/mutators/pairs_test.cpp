// SPDX-License-Identifier: Apache-2.0
// The law of inverse squares: its ends, its order, and its distribution function.
#include <gtest/gtest.h>

#include "mutators/pairs/workload.hpp"

namespace heapyard::pairs {
namespace {

TEST(InverseSquare, RunsFromTheLeastToTheLargestSizeAndNeverBack) {
  std::uint32_t before = 0;
  for (std::uint64_t uniform = 0; uniform < std::uint64_t{1} << 32; uniform += 65'537) {
    const std::uint32_t size = inverse_square(4, 32768, static_cast<std::uint32_t>(uniform));
    ASSERT_GE(size, before);
    before = size;
  }
  EXPECT_EQ(inverse_square(4, 32768, 0), 4u);
  EXPECT_EQ(inverse_square(4, 32768, UINT32_MAX), 32767u);  // the largest itself has no weight left
  EXPECT_EQ(inverse_square(1 << 30, 1 << 30, 12345), std::uint32_t{1} << 30);
  EXPECT_EQ(inverse_square(1, 1 << 30, UINT32_MAX / 2), 1u);
}

// P(size >= s) = (low / s) (high - s) / (high - low) for whole s.
TEST(InverseSquare, LeavesAShareAboveEachSizeThatFallsWithTheSize) {
  constexpr int kDraws = 1 << 16;
  for (const std::uint32_t least : {8u, 64u, 1024u, 8192u}) {
    int above = 0;
    for (std::uint32_t i = 0; i < kDraws; ++i) above += inverse_square(4, 32768, i << 16) >= least;
    EXPECT_NEAR(above, kDraws * (4.0 / least) * (32768 - least) / (32768 - 4), 1.0) << least;
  }
}

}  // namespace
}  // namespace heapyard::pairs
