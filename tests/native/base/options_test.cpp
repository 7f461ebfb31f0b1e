// SPDX-License-Identifier: Apache-2.0
// Command lines: positional numbers, words of a choice, ranges.
#include "base/options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fatal.hpp"

namespace heapyard {
namespace {

// Words of a command line as parse_positionals wants them.
void parse(std::vector<std::string> words, std::span<const Positional> table) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  parse_positionals(static_cast<int>(argv.size()), argv.data(), 0, table);
}

TEST(Positionals, OneWordOfManyNumbersLeavesOutWhatStandsApart) {
  std::int64_t threads = 0, a = 0, b = 0;
  const Positional table[] = {{"THREADS", {&threads, 1, 99}, true}, {"A", {&a, 0, 99}}, {"B", {&b, 0, 99}}};
  parse({"3", "4", "5"}, table);
  EXPECT_EQ(std::vector({threads, a, b}), std::vector<std::int64_t>({3, 4, 5}));
  parse({"6_7"}, table);
  EXPECT_EQ(std::vector({threads, a, b}), std::vector<std::int64_t>({3, 6, 7}));
  parse({"8", "9_10"}, table);
  EXPECT_EQ(std::vector({threads, a, b}), std::vector<std::int64_t>({8, 9, 10}));
  parse({"2"}, table);
  EXPECT_EQ(std::vector({threads, a, b}), std::vector<std::int64_t>({2, 9, 10}));
}

TEST(PositionalsDeathTest, WrongNumbersEndWithOneSentence) {
  std::int64_t a = 0;
  const Positional table[] = {{"A", {&a, 1, 9}}};
  EXPECT_EXIT(parse({"1", "2"}, table), testing::ExitedWithCode(kExitUsage), "there is no argument for '2'");
  EXPECT_EXIT(parse({"x"}, table), testing::ExitedWithCode(kExitUsage), "argument A must be a whole number");
  EXPECT_EXIT(parse({"10"}, table), testing::ExitedWithCode(kExitUsage), "from 1 to 9, not '10'");
}

TEST(Chosen, IsThePlaceOfTheWord) {
  enum class Pet { kCat, kDog, kDogfish };
  constexpr std::string_view kPets = "cat|dog|dogfish";
  EXPECT_EQ(chosen<Pet>(kPets, "cat"), Pet::kCat);
  EXPECT_EQ(chosen<Pet>(kPets, "dog"), Pet::kDog);
  EXPECT_EQ(chosen<Pet>(kPets, "dogfish"), Pet::kDogfish);
}

TEST(CheckRangeDeathTest, AnEmptyRangeEndsWithOneSentence) {
  check_range("size", 7, 7);
  EXPECT_EXIT(check_range("size", 8, 7), testing::ExitedWithCode(kExitUsage),
              "the minimum size 8 is larger than the maximum size 7");
}

}  // namespace
}  // namespace heapyard
