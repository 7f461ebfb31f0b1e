// SPDX-License-Identifier: Apache-2.0
// The checker's memory against what RC11 allows: the classic programs by their published outcomes, and random ones by
// the states that herd7 7.58 finds with its rc11.cat (tests/data/rc11_states.txt; docs/schedules.md has the command).
// And its reduction against a search without one.
#include "litmus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace heapyard::model {
namespace {

using enum std::memory_order;

std::set<std::string> states(const Litmus& litmus, bool reduces = true) {
  Outcome outcome;
  Options options;
  options.reduces = reduces;
  auto found = states_of(litmus, options, outcome);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.fault, "");
  return found;
}

// Whether some execution ends in a state that has all of these words.
bool allows(const Litmus& litmus, std::initializer_list<const char*> words) {
  for (const std::string& state : states(litmus)) {
    bool all = true;
    for (const char* word : words) all &= state.find(word) != std::string::npos;
    if (all) return true;
  }
  return false;
}

constexpr unsigned x = 0, y = 1;

TEST(Litmus, StoreBuffering) {
  const auto sb = [](auto write, auto read, bool fences, auto fence) {
    Litmus litmus(2);
    for (unsigned t : {0u, 1u}) {
      litmus[t].push_back(W(t, 1, write));
      if (fences) litmus[t].push_back(F(fence));
      litmus[t].push_back(R(1 - t, read));
    }
    return allows(litmus, fences ? std::initializer_list<const char*>{"0:r2=0", "1:r2=0"}
                                 : std::initializer_list<const char*>{"0:r1=0", "1:r1=0"});
  };
  EXPECT_TRUE(sb(relaxed, relaxed, false, seq_cst));
  EXPECT_TRUE(sb(release, acquire, false, seq_cst));
  EXPECT_TRUE(sb(seq_cst, acquire, false, seq_cst));
  EXPECT_FALSE(sb(seq_cst, seq_cst, false, seq_cst));
  EXPECT_TRUE(sb(relaxed, relaxed, true, acq_rel));
  EXPECT_FALSE(sb(relaxed, relaxed, true, seq_cst));
}

TEST(Litmus, MessagePassing) {
  const auto mp = [](auto write, auto read) {
    return allows({{W(x, 1, relaxed), W(y, 1, write)}, {R(y, read), R(x, relaxed)}}, {"1:r0=1", "1:r1=0"});
  };
  EXPECT_TRUE(mp(relaxed, relaxed));
  EXPECT_TRUE(mp(release, relaxed));
  EXPECT_TRUE(mp(relaxed, acquire));
  EXPECT_FALSE(mp(release, acquire));
  EXPECT_FALSE(allows({{W(x, 1, relaxed), F(release), W(y, 1, relaxed)}, {R(y, relaxed), F(acquire), R(x, relaxed)}},
                      {"1:r0=1", "1:r2=0"}));
  EXPECT_TRUE(allows({{W(x, 1, relaxed), F(acquire), W(y, 1, relaxed)}, {R(y, relaxed), F(acquire), R(x, relaxed)}},
                     {"1:r0=1", "1:r2=0"}));
}

// A read-modify-write goes on with the release of what it read; another store does not.
TEST(Litmus, ReleaseSequence) {
  EXPECT_FALSE(allows(
      {{W(x, 1, relaxed), W(y, 1, release)}, {{Instruction::add, y, 10, relaxed}}, {R(y, acquire), R(x, relaxed)}},
      {"2:r0=11", "2:r1=0"}));
  EXPECT_TRUE(allows({{W(x, 1, relaxed), W(y, 1, release), W(y, 2, relaxed)}, {R(y, acquire), R(x, relaxed)}},
                     {"1:r0=2", "1:r1=0"}));
}

// RC11 forbids it whatever the orders are; C++20 allows it.
TEST(Litmus, LoadBuffering) {
  EXPECT_FALSE(allows({{R(x, relaxed), W(y, 1, relaxed)}, {R(y, relaxed), W(x, 1, relaxed)}}, {"0:r0=1", "1:r0=1"}));
}

TEST(Litmus, IndependentReadsOfIndependentWrites) {
  const auto iriw = [](auto write, auto read, bool fences) {
    Litmus litmus{{W(x, 1, write)}, {W(y, 1, write)}, {R(x, read)}, {R(y, read)}};
    for (unsigned t : {2u, 3u}) {
      if (fences) litmus[t].push_back(F(seq_cst));
      litmus[t].push_back(R(3 - t, read));
    }
    return fences ? allows(litmus, {"2:r0=1", "2:r2=0", "3:r0=1", "3:r2=0"})
                  : allows(litmus, {"2:r0=1", "2:r1=0", "3:r0=1", "3:r1=0"});
  };
  EXPECT_TRUE(iriw(relaxed, relaxed, false));
  EXPECT_TRUE(iriw(release, acquire, false));
  EXPECT_FALSE(iriw(seq_cst, seq_cst, false));
  EXPECT_FALSE(iriw(relaxed, relaxed, true));
}

TEST(Litmus, TwoWritesTwice) {
  const auto twice = [](auto order) {
    return allows({{W(x, 1, order), W(y, 2, order)}, {W(y, 1, order), W(x, 2, order)}}, {"[x]=1", "[y]=1"});
  };
  EXPECT_TRUE(twice(relaxed));
  EXPECT_TRUE(twice(release));
  EXPECT_FALSE(twice(seq_cst));
}

TEST(Litmus, Coherence) {
  EXPECT_FALSE(allows({{W(x, 1, relaxed)}, {R(x, relaxed), R(x, relaxed)}}, {"1:r0=1", "1:r1=0"}));
  EXPECT_FALSE(allows({{W(x, 1, relaxed), R(x, relaxed)}}, {"0:r1=0"}));
  EXPECT_FALSE(allows({{W(x, 1, relaxed), W(x, 2, relaxed)}}, {"[x]=1"}));
  EXPECT_FALSE(allows({{R(x, relaxed), W(x, 1, relaxed)}}, {"0:r0=1"}));
  // Two read-modify-writes never read the same store.
  EXPECT_FALSE(allows({{{Instruction::add, x, 10, relaxed}}, {{Instruction::add, x, 10, relaxed}}}, {"[x]=10;"}));
}

// The one kind of state that herd7 has and the checker has not: its order of sequentially consistent operations runs
// against what a relaxed load has read (memory.hpp).
const std::set<std::uint64_t> kFewer = {264};

TEST(Litmus, RandomProgramsEndAsHerdSaysForRc11) {
  std::ifstream file(HEAPYARD_SOURCE "/tests/data/rc11_states.txt");
  std::string line;
  std::size_t programs = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::uint64_t seed = std::stoull(line);
    std::set<std::string> said;
    for (std::size_t at = line.find(" | "); at != std::string::npos;) {
      const std::size_t next = line.find(" | ", at + 3);
      said.insert(line.substr(at + 3, next == std::string::npos ? next : next - at - 3));
      at = next;
    }
    const auto found = states(drawn_litmus(seed));
    if (kFewer.contains(seed)) {
      EXPECT_LT(found.size(), said.size());
      EXPECT_TRUE(std::ranges::includes(said, found)) << seed;
    } else {
      EXPECT_EQ(found, said) << herd_of(drawn_litmus(seed), std::to_string(seed));
    }
    ++programs;
  }
  EXPECT_EQ(programs, 400u);
}

TEST(Litmus, NothingIsLostByReduction) {
  for (std::uint64_t seed = 1'001; seed <= 1'300; ++seed) {
    const Litmus litmus = drawn_litmus(seed);
    EXPECT_EQ(states(litmus, true), states(litmus, false)) << herd_of(litmus, std::to_string(seed));
  }
}

}  // namespace
}  // namespace heapyard::model
