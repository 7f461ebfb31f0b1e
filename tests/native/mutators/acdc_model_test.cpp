// SPDX-License-Identifier: Apache-2.0
// Models from a file: what is read, what is refused, and that draws follow the weights.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "mutators/acdc/model_file.hpp"

namespace heapyard::acdc {
namespace {

std::string write_file(const std::string& text) {
  std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(name.begin(), name.end(), '/', '_');
  std::string path = testing::TempDir() + "model_" + name + "_" + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs(text.c_str(), file);
  std::fclose(file);
  return path;
}

TEST(ModelFile, DrawsFollowTheWeights) {
  kit::Arena arena;
  std::string text = "heapyard-mutator-model 1\ngroup 100\n";
  std::vector<double> weights;
  double total = 0;
  for (int i = 0; i < 50; ++i) {
    weights.push_back(0.5 + (i * 37) % 50);
    total += weights.back();
    const int size = 100 * (i + 1);
    text +=
        "bucket " + std::to_string(size) + " " + std::to_string(size) + " 2 2 " + std::to_string(weights.back()) + "\n";
  }
  const Model model = read_model(write_file(text).c_str(), arena);
  Random random(3);
  Options options;
  std::vector<double> seen(50);
  constexpr int kDraws = 1'000'000;
  for (int i = 0; i < kDraws; ++i) ++seen[draw_empirical(model.groups[0], options, random).size / 100 - 1];
  double chi_square = 0;
  for (int i = 0; i < 50; ++i) {
    const double expected = kDraws * weights[i] / total;
    chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 110.0);  // chi-square with 49 degrees of freedom: above this once in 10^6
}

TEST(ModelFile, ThreadsAreDealtToGroupsByShare) {
  kit::Arena arena;
  const Model model = read_model(write_file("heapyard-mutator-model 1 # comment\n\ngroup 75\nbucket 8 8 1 1 1\n"
                                            "group 25\nshared 10 50\nbucket 9 9 4 7 1\n")
                                     .c_str(),
                                 arena);
  int second = 0;
  for (int i = 0; i < 8; ++i) second += &model.group_of(i, 8) == &model.groups[1];
  EXPECT_EQ(second, 2);
  EXPECT_EQ(model.longest_liveness(), 7u);
  EXPECT_EQ(model.receiver_ratio(), 50);
}

struct Refused {
  const char* text;
  const char* sentence;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.sentence; }
class ModelFileRefuses : public testing::TestWithParam<Refused> {};
INSTANTIATE_TEST_SUITE_P(
    Files, ModelFileRefuses,
    testing::Values(
        Refused{"", "starts with 'heapyard-mutator-model 1'"}, Refused{"group 1\n", ":1: a model starts with"},
        Refused{"heapyard-mutator-model 1\n", "has no group"},
        Refused{"heapyard-mutator-model 1\ngroup 1\n", "group 1 has no bucket"},
        Refused{"heapyard-mutator-model 1\nbucket 1 2 1 1 1\n", ":2: 'bucket' before the first 'group'"},
        Refused{"heapyard-mutator-model 1\ngroup 1\nbucket 9 8 1 1 1\n",
                ":3: the largest size is missing or out of range"},
        Refused{"heapyard-mutator-model 1\ngroup 1\nbucket 8 9 1 1 -1\n", ":3: the weight is missing or out of range"},
        Refused{"heapyard-mutator-model 1\ngroup 1\nbucket 8 9 1 1 nan\n", ":3: the weight is missing or out of range"},
        Refused{"heapyard-mutator-model 1\ngroup 1\nbucket 8 9 1 1 1 7\n", ":3: more words than 'bucket' takes"},
        Refused{"heapyard-mutator-model 1\ngroup 1\nbuckets 8\n", ":3: there is no statement 'buckets'"}));

TEST_P(ModelFileRefuses, WithFileLineAndSentence) {
  const std::string path = write_file(GetParam().text);
  EXPECT_EXIT(
      {
        kit::Arena arena;
        read_model(path.c_str(), arena);
      },
      testing::ExitedWithCode(2), GetParam().sentence);
}

}  // namespace
}  // namespace heapyard::acdc
