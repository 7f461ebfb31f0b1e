// SPDX-License-Identifier: Apache-2.0
// A loop that turns once too often is stopped where it is; one within its bound is not.
#include "heap/os/bound.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace heapyard::os {
namespace {

template <class B>
unsigned turns(unsigned bound, unsigned wanted) {
  unsigned done = 0;
  for (B checked(bound); done < wanted; ++done) checked.turn();
  return done;
}

TEST(Bound, LetsALoopTurnAsOftenAsItSaid) { EXPECT_EQ(turns<BoundIf<true>>(5, 5), 5u); }
TEST(BoundDeathTest, StopsTheTurnBehindTheLast) { EXPECT_DEATH(turns<BoundIf<true>>(5, 6), ""); }
TEST(Bound, CostsAReleaseBuildNothing) {
  EXPECT_EQ(turns<BoundIf<false>>(5, 6), 6u);
  EXPECT_TRUE(std::is_empty_v<BoundIf<false>>);
}

}  // namespace
}  // namespace heapyard::os
