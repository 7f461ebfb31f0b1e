// SPDX-License-Identifier: Apache-2.0
// The laws of section 2.3 of the ACDC paper, tested against their closed forms on 10^6 draws with a fixed seed.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "mutators/acdc/law.hpp"

namespace heapyard::acdc {
namespace {

constexpr int kDraws = 1'000'000;

// Quantile of chi-square at 1 - 1e-6 (Wilson and Hilferty): with a fixed seed, a wrong law fails and a right one always
// passes.
double critical(double df) {
  const double z = 4.7534, a = 2 / (9 * df);
  return df * std::pow(1 - a + z * std::sqrt(a), 3);
}

double chi_square(const std::vector<double>& observed, const std::vector<double>& share) {
  double total = 0, sum = 0;
  for (const double count : observed) total += count;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    const double expected = total * share[i];
    sum += (observed[i] - expected) * (observed[i] - expected) / expected;
  }
  return sum;
}

void expect_follows(const std::vector<double>& observed, const std::vector<double>& share) {
  EXPECT_LT(chi_square(observed, share), critical(static_cast<double>(observed.size() - 1)));
}

TEST(PaperLaw, SizeClassesAreUniformInTheExponent) {
  Options o;
  o.min_size = 16;
  o.max_size = 8191;
  Random random(1);
  std::vector<double> classes(9);
  for (int i = 0; i < kDraws; ++i) ++classes[exponent(draw_paper(o, random).size) - 4];
  expect_follows(classes, std::vector<double>(9, 1.0 / 9));
}

TEST(PaperLaw, SizesAreUniformInsideAClassAndReachItsEnds) {
  Options o;
  o.min_size = 64;
  o.max_size = 127;
  Random random(2);
  std::vector<double> sizes(64);
  for (int i = 0; i < kDraws; ++i) ++sizes[draw_paper(o, random).size - 64];
  expect_follows(sizes, std::vector<double>(64, 1.0 / 64));
}

TEST(PaperLaw, LivenessIsUniform) {
  Options o;
  o.min_liveness = 3;
  o.max_liveness = 12;
  Random random(3);
  std::vector<double> liveness(10);
  for (int i = 0; i < kDraws; ++i) ++liveness[draw_paper(o, random).liveness - 3];
  expect_follows(liveness, std::vector<double>(10, 0.1));
}

TEST(PaperLaw, CountsAreTheProductOfTwoSquares) {
  Options o;  // 16 to 255 bytes, liveness 1 to 10
  Random random(4);
  for (int i = 0; i < 10'000; ++i) {
    const Draw d = draw_paper(o, random);
    const auto a = 8 - static_cast<std::int64_t>(exponent(d.size)) + 1,
               b = 10 - static_cast<std::int64_t>(d.liveness) + 1;
    ASSERT_EQ(d.count, a * a * b * b);
  }
}

TEST(PaperLaw, SharesAreExactPercentages) {
  Options o;
  o.shared = true;
  o.list_ratio = 30;
  o.shared_ratio = 70;
  o.permanent_ratio = 5;
  Random random(5);
  double lists = 0, shared = 0, permanent = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Draw d = draw_paper(o, random);
    lists += d.shape == Shape::kList;
    shared += d.shared;
    permanent += d.permanent;
  }
  expect_follows({lists, kDraws - lists}, {0.3, 0.7});
  expect_follows({shared, kDraws - shared}, {0.7, 0.3});
  expect_follows({permanent, kDraws - permanent}, {0.05, 0.95});
}

TEST(PaperLaw, ZeroAndHundredPercentHaveNoExceptions) {
  Options o;
  o.shared = true;
  Random random(6);
  for (int i = 0; i < 100'000; ++i) {
    const Draw d = draw_paper(o, random);
    ASSERT_EQ(d.shape, Shape::kList);
    ASSERT_TRUE(d.shared);
    ASSERT_FALSE(d.permanent);
  }
  o.list_ratio = 0;
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(draw_paper(o, random).shape, Shape::kTree);
}

// The published code has no objects of 8 to 15 bytes, though the paper's Tables 2, 3 and 5 start at 8.
TEST(PaperLaw, ListsOfEightByteObjectsExist) {
  Options o;
  o.min_size = 8;
  o.max_size = 15;
  Random random(7);
  std::vector<double> sizes(8);
  for (int i = 0; i < 100'000; ++i) ++sizes[draw_paper(o, random).size - 8];
  expect_follows(sizes, std::vector<double>(8, 0.125));
  o.list_ratio = 0;  // a tree node needs two links
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(draw_paper(o, random).size, 16u);
}

TEST(PaperLaw, CompatReproducesTheHundredAndOneValuesOfThePublishedCode) {
  Options o;
  o.compat = true;
  o.list_ratio = 0;
  Random random(8);
  double lists = 0;
  for (int i = 0; i < kDraws; ++i) lists += draw_paper(o, random).shape == Shape::kList;
  expect_follows({lists, kDraws - lists}, {1.0 / 101, 100.0 / 101});
}

}  // namespace
}  // namespace heapyard::acdc
