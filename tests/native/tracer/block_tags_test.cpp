// SPDX-License-Identifier: Apache-2.0
// What the traced program knows of its blocks, their chains and the time: against plain maps.
#include "tracer/events/block_tags.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tracer/events/chain_numbers.hpp"
#include "tracer/events/told_chains.hpp"
#include "tracer/session/activity.hpp"

namespace {

using namespace heapyard::tracer;

constexpr std::uintptr_t kHeap = 0x7f00'1234'0000;  // nothing lies there: only its shadow is touched

class BlockTagsTest : public testing::Test {
 protected:
  explicit BlockTagsTest(unsigned log2_apart = 4) { EXPECT_TRUE(tags_.prepare(log2_apart)); }
  std::uint64_t* place(std::uintptr_t block, std::size_t size) {
    std::uint64_t* word = tags_.place_at_once(block, size);
    return word != nullptr ? word : tags_.place(block, size, in_use_);
  }
  void put(std::uintptr_t block, const Owned& owned) { BlockTags::put(place(block, owned.size), block, owned); }
  BlockTags tags_;
  std::atomic<std::uint64_t> in_use_{0};
};

bool operator==(const Owned& one, const Owned& other) {
  return one.owner.word == other.owner.word && one.size == other.size;
}

// Of a malloc whose blocks are aligned to 16 bytes and lie as far apart at least; or 16 apart, and some 8.
class BlockTagsApartTest : public BlockTagsTest, public testing::WithParamInterface<unsigned> {
 protected:
  BlockTagsApartTest() : BlockTagsTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Apart, BlockTagsApartTest, testing::Values(4u, 5u));

// Blocks of all sizes side by side, over the borders of regions too, in every alignment that a malloc has.
TEST_P(BlockTagsApartTest, AreAMapOfBlocks) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const std::uintptr_t begin = kHeap + (std::uintptr_t{seed} << 32) + 0xff'0000;  // a region ends 64 KiB further on
    std::map<std::uintptr_t, std::pair<std::size_t, Owned>> live;                   // by address: room and owner
    const auto random_size = [&]() -> std::size_t {
      switch (random() % 8) {
        case 0:
          return random() % 17;
        case 1:
          return 240 + random() % 32;
        case 2:
          return random() % 100'000;
        case 3:
          return random() % 256 == 0 ? (std::size_t{4} << 20) - 2 + random() % (std::size_t{1} << 37) : random() % 5000;
        default:
          return random() % 300;
      }
    };
    unsigned puts = 0;
    for (int turn = 0; turn < 40'000; ++turn) {
      const std::uintptr_t alignment = GetParam() == 4 && random() % 4 == 0 ? 8 : 16;
      const std::size_t apart = alignment == 8 ? 8 : std::size_t{1} << GetParam();
      const std::uintptr_t at = begin + random() % 0x40'0000 / alignment * alignment;
      const auto next = live.lower_bound(at);
      const auto before = next == live.begin() ? live.end() : std::prev(next);
      if (random() % 2 == 0) {
        const Owned owned{Owner::of(1 + random() % (Owner::kChains - 1), random() % Owner::kThreads), random_size()};
        const std::size_t room = std::max<std::size_t>(owned.size, apart);
        if ((next != live.end() && at + room > next->first) ||
            (before != live.end() && before->first + before->second.first > at))
          continue;
        put(at, owned);
        live.emplace(at, std::pair{room, owned});
        ++puts;
      } else if (next != live.end()) {
        ASSERT_TRUE(tags_.take(next->first) == next->second.second) << std::hex << next->first;
        ASSERT_FALSE(tags_.take(next->first).owner);
        live.erase(next);
      } else if (before == live.end() || before->first + before->second.first <= at) {
        ASSERT_FALSE(tags_.take(at).owner);
      }
    }
    EXPECT_GT(puts, 1000u);
    for (const auto& [address, block] : live) ASSERT_TRUE(tags_.take(address) == block.second);
  }
  EXPECT_GT(in_use_.load(), 0u);
}

TEST_F(BlockTagsTest, TellTwoBlocksOfEightBytesApart) {
  const Owned one{Owner::of(5, 1), 8}, other{Owner::of(6, 2), 7};
  put(kHeap, one);
  put(kHeap + 8, other);
  EXPECT_TRUE(tags_.take(kHeap + 8) == other);
  EXPECT_TRUE(tags_.take(kHeap) == one);
}

// The free of a block was not seen, and its address comes again.
TEST_F(BlockTagsTest, KnowABlockWhoseFreeWasNotSeen) {
  const Owned small{Owner::of(5, 1), 100}, large{Owner::of(6, 2), 1000};
  for (const Owned& owned : {small, large}) {  // so that there is memory for both
    put(kHeap, owned);
    EXPECT_TRUE(tags_.take(kHeap) == owned);
    EXPECT_NE(tags_.place_at_once(kHeap, owned.size), nullptr);
  }
  for (const auto& [first, second] : {std::pair{small, small}, {small, large}, {large, large}}) {
    put(kHeap, first);
    EXPECT_EQ(tags_.place_at_once(kHeap, second.size), nullptr);
    EXPECT_TRUE(tags_.take(kHeap) == first);
    put(kHeap, second);
    EXPECT_TRUE(tags_.take(kHeap) == second);
  }
  put(kHeap, large);  // a small one is found before it; it is told once a large one comes
  put(kHeap, small);
  EXPECT_TRUE(tags_.take(kHeap) == small);
  EXPECT_EQ(tags_.place_at_once(kHeap, large.size), nullptr);
  EXPECT_TRUE(tags_.take(kHeap) == large);
}

TEST_F(BlockTagsTest, ForgetAllAndAChildKnowsNone) {
  put(kHeap, {Owner::of(5, 1), 100});
  put(kHeap + 0x1000, {Owner::of(6, 1), 10'000});
  const pid_t child = fork();
  if (child == 0) _exit(tags_.take(kHeap).owner || tags_.take(kHeap + 0x1000).owner ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(tags_.take(kHeap) == (Owned{Owner::of(5, 1), 100}));
  tags_.forget();
  EXPECT_FALSE(tags_.take(kHeap + 0x1000).owner);
}

// The last memory there was is not needed in vain; then blocks go unrecorded.
TEST_F(BlockTagsTest, WithoutAddressSpaceThereIsOneMoreRegion) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
    const bool first = tags_.place(kHeap, 1000, in_use_) != nullptr;
    const bool second = tags_.place(kHeap + (std::uintptr_t{1} << 40), 1000, in_use_) != nullptr;
    _exit(first && !second && !tags_.take(kHeap).owner ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ChainNumbersTest, AreTheSameInAllThreadsAndOfOneChainEach) {
  constexpr unsigned kThreads = 4, kHashes = 100'000;
  ChainNumbers numbers;
  ASSERT_TRUE(numbers.prepare());
  std::vector<std::uint64_t> found[kThreads];
  std::vector<std::thread> threads;
  for (auto& mine : found) {
    threads.emplace_back([&] {
      std::mt19937_64 random(1);
      for (unsigned index = 0; index < kHashes; ++index) mine.push_back(numbers.of(random()));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& other : found) EXPECT_EQ(other, found[0]);
  EXPECT_EQ(std::set(found[0].begin(), found[0].end()).size(), kHashes);
  std::mt19937_64 random(1);
  for (const std::uint64_t number : found[0]) {
    ASSERT_LT(number - 1, Owner::kChains - 1);
    ASSERT_EQ(numbers.of(random()), number);
  }
}

TEST(ChainNumbersTest, WhoeverHasOneKeepsItWhenThereAreNoMore) {
  ChainNumbers numbers;
  ASSERT_TRUE(numbers.prepare());
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> found;
  while (found.empty() || (found.back() != 0 && found.size() < Owner::kChains)) found.push_back(numbers.of(random()));
  EXPECT_GT(found.size(), Owner::kChains / 4);
  EXPECT_EQ(found.back(), 0u);
  random.seed(2);
  for (const std::uint64_t number : found) ASSERT_EQ(numbers.of(random()), number);
}

TEST(ToldChainsTest, AreASetOfNumbers) {
  const auto told = std::make_unique<ToldChains>();
  std::mt19937_64 random(3);
  for (const std::uint64_t numbers : {std::uint64_t{2000}, Owner::kChains}) {
    std::set<std::uint64_t> model{numbers - 1};
    told->add(numbers - 1);
    for (int turn = 0; turn < 20'000; ++turn) {
      const std::uint64_t number = 1 + random() % (numbers - 1);
      ASSERT_EQ(told->has(number), model.contains(number));
      if (turn % 3 == 0) told->add(*model.insert(number).first);
    }
    told->forget();
    for (const std::uint64_t number : model) ASSERT_FALSE(told->has(number));
  }
}

// Threads hand a token on, and someone lets it begin anew at any time: whoever had it first has no later stamp.
TEST(ActivityTest, StampsAreInTheOrderOfWhatLedToWhat) {
  constexpr unsigned kThreads = 3, kTurns = 60'000;
  Activity activity;
  std::atomic<std::uint64_t> clock{1};
  std::atomic<unsigned> token{0};
  std::vector<std::uint64_t> stamps(kTurns);
  std::atomic<bool> done{false};
  unsigned remembered = 0;
  std::thread collector([&] {
    for (std::mt19937 random(1); !done; std::this_thread::yield()) {
      if (random() % 8 == 0) activity.begin_anew();
    }
  });
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::uint64_t word = Activity::kNone, since = 0;
      for (unsigned turn; (turn = token.load(std::memory_order_acquire)) < kTurns;) {
        if (turn / 50 % kThreads != number) {  // fifty in a row, as a thread that is alone has them
          std::this_thread::yield();
          continue;
        }
        if (turn % 97 == 0) activity.begin_anew();  // also if the collector never gets to it
        if (activity.word() != word) {
          word = activity.take(number);
          since = Activity::alone(word) ? clock.fetch_add(1) : 0;
        }
        remembered += since != 0;  // by whoever has the token
        stamps[turn] = since != 0 ? since : clock.fetch_add(1);
        token.store(turn + 1, std::memory_order_release);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done = true;
  collector.join();
  for (unsigned turn = 1; turn < kTurns; ++turn) ASSERT_LE(stamps[turn - 1], stamps[turn]) << turn;
  EXPECT_GT(remembered, 100u);
}

// A thread that has rested since an earlier session, which looked as often, finds nothing as it left it.
TEST(ActivityTest, NoSessionIsAsAnotherWasLeft) {
  std::set<std::uint64_t> seen;
  std::size_t words = 0;
  for (std::uint32_t session = 0; session < 3; ++session) {
    Activity activity;
    activity.be_of_session(session);
    for (int look = 0; look < 100; ++look, activity.begin_anew()) {
      for (const std::uint32_t thread : {4, 5}) {
        seen.insert(activity.take(thread));
        ++words;
      }
    }
  }
  EXPECT_EQ(seen.size(), words);
}

TEST(ActivityTest, OneIsAloneUntilAnotherComes) {
  Activity activity;
  const std::uint64_t first = activity.take(7);
  EXPECT_TRUE(Activity::alone(first));
  EXPECT_EQ(activity.take(7), first);
  EXPECT_FALSE(Activity::alone(activity.take(8)));
  EXPECT_NE(activity.word(), first);
  EXPECT_FALSE(Activity::alone(activity.take(7)));
  activity.begin_anew();
  EXPECT_TRUE(Activity::alone(activity.take(8)));
  activity.begin_anew();
  EXPECT_FALSE(Activity::alone(activity.take(Owner::kThreads - 1)));  // that number stands for many
}

}  // namespace
