// SPDX-License-Identifier: Apache-2.0
// The parts of the tracer that stand alone: the ring, the set of samples, sampling itself, live blocks, the call tree.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/file_budget.hpp"
#include "tracer/collector/lossy_recorder.hpp"
#include "tracer/collector/modules.hpp"
#include "tracer/collector/wait.hpp"
#include "tracer/session/poisson.hpp"
#include "tracer/session/ring.hpp"
#include "tracer/session/sample_set.hpp"

namespace {

using namespace heapyard::tracer;

template <std::uint32_t Buckets>
class SessionTest : public testing::Test {
 protected:
  SessionTest() : layout_(4, 1 << 12, Buckets) {
    void* base = mmap(nullptr, layout_.end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    session_ = Session(base, layout_);
    session_.header().rings = 4;
    session_.header().ring_bytes = 1 << 12;
    session_.header().buckets = Buckets;
    session_.header().buckets_used = std::min(Buckets, kFirstBuckets);
  }
  ~SessionTest() override { munmap(session_.base(), layout_.end); }
  Layout layout_;
  Session session_;
};

using Ring = SessionTest<64>;
using Samples = SessionTest<64>;
using ManySamples = SessionTest<8 * kFirstBuckets>;

// One thread writes records of random lengths, another reads: nothing is lost, nothing wraps.
TEST_F(Ring, CarriesEveryRecordInOrder) {
  constexpr std::uint64_t kRecords = 200'000;
  std::thread producer([&] {
    RingWriter writer(session_.ring(0), session_.words(0), 1 << 12, session_.header().bell);
    std::mt19937 random(1);
    for (std::uint64_t number = 1; number <= kRecords;) {
      const std::size_t words = 2 + random() % 60;
      std::uint64_t* at = writer.reserve(words);
      if (at == nullptr) {
        std::this_thread::yield();
        continue;
      }
      at[0] = first_word(Kind::kMark, words);
      for (std::size_t index = 1; index < words; ++index) at[index] = number;
      writer.publish(words);
      ++number;
    }
  });
  std::uint64_t expected = 1, tail = 0;
  auto& ring = session_.ring(0);
  const std::uint64_t mask = (1 << 12) / 8 - 1;
  while (expected <= kRecords) {
    const std::uint64_t head = ring.head.load(std::memory_order_acquire);
    while (tail != head) {
      const std::uint64_t* at = session_.words(0) + (tail & mask);
      const std::uint64_t words = at[0] & kAddressBits;
      if (at[0] >> 56 == static_cast<std::uint64_t>(Kind::kMark)) {
        ASSERT_LE((tail & mask) + words, mask + 1);
        for (std::size_t index = 1; index < words; ++index) ASSERT_EQ(at[index], expected);
        ++expected;
      }
      tail += words;
    }
    ring.tail.store(tail, std::memory_order_release);
  }
  producer.join();
}

// The reader sleeps until half of a ring is full, and no longer.
TEST_F(Ring, WakesItsReaderWhenHalfFull) {
  Bell& bell = session_.header().bell;
  if (!wait_for({&bell}, 0)) GTEST_SKIP() << "a kernel before Linux 5.16";
  bell.expect();
  std::thread reader([&] { EXPECT_TRUE(wait_for({&bell}, ~std::uint64_t{0} >> 1)); });
  RingWriter writer(session_.ring(0), session_.words(0), 1 << 12, bell);
  const auto write = [&] {
    std::uint64_t* at = writer.reserve(8);
    if (at != nullptr) writer.publish(8);
    return at != nullptr;
  };
  for (std::size_t words = 0; words < writer.capacity() / 2; words += 8) {
    EXPECT_TRUE(write());
    EXPECT_EQ(*bell.word(), 1u);
  }
  EXPECT_TRUE(write());
  EXPECT_EQ(*bell.word(), 0u);
  reader.join();
  for (std::size_t words = writer.capacity() / 2 + 8; words < writer.capacity(); words += 8) EXPECT_TRUE(write());
  bell.expect();
  EXPECT_FALSE(write());
  EXPECT_EQ(*bell.word(), 0u);                             // full: whoever did not hear it the first time
  EXPECT_TRUE(wait_for({&bell}, ~std::uint64_t{0} >> 1));  // it has rung already
  EXPECT_FALSE(wait_for(std::vector<Bell*>(FUTEX_WAITV_MAX + 1, &bell), 0));  // more than the kernel can
}

TEST_F(Samples, AreASetOfAddresses) {
  SampleSet set(session_);
  std::map<std::uintptr_t, bool> model;
  std::mt19937_64 random(2);
  for (int turn = 0; turn < 200'000; ++turn) {
    const std::uintptr_t address = 0x7f0000000000 + (random() % 600) * 16;
    if (random() % 2 == 0) {
      if (!model[address]) model[address] = set.insert(address, random());
    } else {
      ASSERT_EQ(set.erase(address), model[address]);
      model[address] = false;
    }
    ASSERT_TRUE(!model[address] || set.maybe(address));
  }
  for (const auto& [address, in] : model) ASSERT_EQ(set.erase(address), in);
  for (std::size_t place = 0; place < kSampleCounts; ++place) ASSERT_EQ(session_.filter()[place].load(), 0);
}

// A block that comes and goes all the time beside a sample costs no look-up.
TEST_F(Samples, NeighboursOfOneAreToldApart) {
  SampleSet set(session_);
  const std::uintptr_t page = 0x7f0000003000;
  ASSERT_TRUE(set.insert(page, 1));
  EXPECT_TRUE(set.maybe(page));
  unsigned maybe = 0;
  for (std::uintptr_t address = page + 16; address < page + 4096; address += 16) maybe += set.maybe(address);
  EXPECT_LT(maybe, 3u);
  EXPECT_TRUE(set.erase(page));
  EXPECT_FALSE(set.maybe(page));
}

// Each page touched is a page more of the program's memory.
TEST_F(Samples, OfASmallHeapTouchOnePageOfCounts) {
  SampleSet set(session_);
  for (std::uintptr_t n = 0; n < 200; ++n) ASSERT_TRUE(set.insert(0x7f0000000000 + n * 4112, n));
  for (std::size_t place = 0; place < kSampleCounts; ++place) {
    if (place / kPage == count_place(0x7f0000000000) / kPage) continue;
    ASSERT_EQ(session_.filter()[place].load(), 0);
  }
}

// As many at one place as a count holds, and more: none is missed, whoever leaves.
TEST_F(Samples, ACountThatIsFullSaysMaybeForEver) {
  SampleSet set(session_);
  const auto nth = [](std::uintptr_t n) { return 0x7f0000003000 + n * kSampleReach * kSampleCounts; };
  for (std::uintptr_t n = 0; n < 300; ++n) ASSERT_TRUE(set.insert(nth(n), n));
  for (std::uintptr_t n = 0; n < 300; ++n) {
    ASSERT_TRUE(set.maybe(nth(n)));
    ASSERT_TRUE(set.erase(nth(n)));
  }
  EXPECT_EQ(session_.filter()[count_place(nth(0))].load(), 255);
  for (std::uintptr_t n = 0; n < 254; ++n) ASSERT_TRUE(set.insert(nth(n) + kSampleReach, n));
  for (std::uintptr_t n = 0; n < 254; ++n) ASSERT_TRUE(set.erase(nth(n) + kSampleReach));
  EXPECT_EQ(session_.filter()[count_place(nth(0)) + 1].load(), 0);
}

TEST_F(Samples, OfManyThreads) {
  SampleSet set(session_);
  std::vector<std::thread> threads;
  for (std::uintptr_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int turn = 0; turn < 100'000; ++turn) {
        const std::uintptr_t address = (thread * 1000 + static_cast<std::uintptr_t>(turn % 60)) * 4096 + 16;
        ASSERT_TRUE(!set.insert(address, address) || set.erase(address));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t place = 0; place < kSampleCounts; ++place) ASSERT_EQ(session_.filter()[place].load(), 0);
}

// Every kind of brief event, owners and sizes up to the largest; no other record is taken for one.
TEST(BriefEvent, HoldsWhatItIsOf) {
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << kBriefSizeBits) - 1;
  for (const Kind kind : {Kind::kOwned, Kind::kGone, Kind::kGoneAtOnce, Kind::kGoneMove}) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, kLargest}) {
      for (const std::uint64_t chain : {std::uint64_t{1}, Owner::kChains - 1}) {
        for (const std::uint64_t thread : {0u, Owner::kThreads - 1}) {
          const std::uint64_t word = brief(kind, {Owner::of(chain, thread), size});
          ASSERT_TRUE(is_brief(word));
          EXPECT_EQ(record_words(word), 1u);
          EXPECT_EQ(kind_of_brief(word), kind);
          EXPECT_EQ(owned_of_brief(word).size, size);
          EXPECT_EQ(owned_of_brief(word).owner.word, Owner::of(chain, thread).word);
        }
      }
    }
  }
  for (unsigned kind = 0; kind <= static_cast<unsigned>(Kind::kSince); ++kind)
    EXPECT_FALSE(is_brief(first_word(static_cast<Kind>(kind), ~std::uint64_t{0})));
}

// Inserted while it grows, found after; the memory of few samples stays small.
TEST_F(ManySamples, GrowAsNeeded) {
  SampleSet set(session_);
  for (std::uintptr_t turn = 1; turn <= 1500; ++turn) ASSERT_TRUE(set.insert(turn * 4160, turn));
  for (std::uintptr_t turn = 1; turn <= 1500; ++turn) ASSERT_TRUE(set.erase(turn * 4160));
  ASSERT_EQ(session_.header().buckets_used.load(), kFirstBuckets);
  std::vector<std::thread> threads;
  for (std::uintptr_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      std::vector<std::uintptr_t> mine;
      for (std::uintptr_t turn = 0; turn < 2000; ++turn) {
        mine.push_back((thread << 40) + turn * 4160);
        ASSERT_TRUE(set.insert(mine.back(), turn));
        if (turn % 3 == 0) {
          std::swap(mine[random() % mine.size()], mine.back());
          ASSERT_TRUE(set.erase(mine.back()));
          mine.pop_back();
        }
      }
      for (const std::uintptr_t address : mine) ASSERT_TRUE(set.erase(address));
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t place = 0; place < kSampleCounts; ++place) ASSERT_EQ(session_.filter()[place].load(), 0);
}

// The collector, late with a block's end, must not take out whoever lives there now.
TEST_F(Samples, AreErasedByAnotherOnlyAsAllocatedThen) {
  SampleSet set(session_);
  std::mt19937_64 random(4);
  int mistaken = 0;
  for (int turn = 0; turn < 10'000; ++turn) {
    const std::uintptr_t address = 0x7f0000000000 + random() % 600 * 16;
    const std::uint64_t then = random() >> 8, now = then + 30 + random() % 100'000;
    ASSERT_TRUE(set.insert(address, then));
    ASSERT_TRUE(set.erase(address, then));
    ASSERT_TRUE(set.insert(address, now));
    mistaken += set.erase(address, then);
    set.erase(address);
  }
  EXPECT_LT(mistaken, 100);  // 1 in 256
  for (std::size_t place = 0; place < kSampleCounts; ++place) ASSERT_EQ(session_.filter()[place].load(), 0);
}

TEST(Poisson, LogarithmIsRight) {
  std::mt19937_64 random(3);
  for (int turn = 0; turn < 1'000'000; ++turn) {
    const double u = static_cast<double>((random() >> 11) + 1) * 0x1p-53;
    ASSERT_NEAR(minus_log(u), -std::log(u), 1e-10 * (1 + -std::log(u)));
  }
}

// Horvitz and Thompson's sums are right on average, whatever the sizes.
TEST(Poisson, SumsAreUnbiased) {
  std::mt19937 sizes(4);
  double truth = 0, sum = 0, blocks = 0, variance = 0;
  std::uint64_t state = 99;
  std::uint64_t left = next_distance(state, 12);
  constexpr int kBlocks = 3'000'000;
  for (int turn = 0; turn < kBlocks; ++turn) {
    const std::uint64_t size = turn % 1000 == 0 ? 50'000 : sizes() % 400;
    truth += static_cast<double>(size);
    const double stands_for = blocks_of_sample(size, 12);
    variance += static_cast<double>(size) * static_cast<double>(size) * (stands_for - 1);
    if (size < left) {
      left -= size + 1;
      continue;
    }
    left = next_distance(state, 12);
    sum += stands_for * static_cast<double>(size);
    blocks += stands_for;
  }
  EXPECT_LT(std::abs(sum - truth), 4 * std::sqrt(variance));
  EXPECT_NEAR(blocks / kBlocks, 1, 0.01);
}

TEST(LiveBlocksTest, AreAMap) {
  LiveBlocks live;
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 500'000; ++turn) {
    const std::uint64_t address = (1 + random() % 5000) * 16;
    Block* found = live.find(address);
    ASSERT_EQ(found != nullptr, model.contains(address));
    if (found != nullptr) {
      ASSERT_EQ(found->stamp, model[address]);
      live.erase(found);
      model.erase(address);
    } else {
      Block block;
      block.address = address;
      block.stamp = static_cast<std::uint64_t>(turn);
      live.insert(block);
      model[address] = block.stamp;
    }
    ASSERT_EQ(live.size(), model.size());
  }
}

TEST(CallTreeTest, SumsOfChildrenAreParents) {
  CallTree tree(1 << 20);
  std::mt19937 random(6);
  std::vector<std::uint32_t> ends;
  for (int chain = 0; chain < 5000; ++chain) {
    std::uint32_t node = CallTree::kRoot;
    for (unsigned depth = 0; depth < 1 + random() % 12; ++depth) node = tree.child(node, 1, random() % 4);
    ends.push_back(node);
  }
  std::int64_t all = 0;
  for (int turn = 0; turn < 50'000; ++turn) {
    const auto bytes = static_cast<std::int64_t>(random() % 1000) - 300;
    tree.add(ends[random() % ends.size()], bytes);
    all += bytes;
  }
  EXPECT_EQ(tree[CallTree::kRoot].bytes, all);
  EXPECT_EQ(tree.refused(), 0u);
}

TEST(CallTreeTest, RefusesBeyondItsLimit) {
  CallTree tree(10);
  for (std::uint64_t offset = 100; offset < 200; ++offset)
    EXPECT_LT(tree.child(tree.size() > 1 ? 1 : 0, 1, offset), 10u);
  EXPECT_EQ(tree.size(), 10u);
  EXPECT_EQ(tree.refused(), 91u);
  // A chain is never nobody's: those without a first frame share a node.
  for (std::uint64_t offset = 200; offset < 300; ++offset) {
    const std::uint32_t first = tree.child(CallTree::kRoot, 1, offset);
    EXPECT_EQ(first, 10u);
    EXPECT_EQ(tree.child(first, 1, offset), first);
  }
  EXPECT_EQ(tree[10].offset, CallTree::kBeyond);
  EXPECT_EQ(tree.size(), 11u);
}

// The composition at the peak, kept without copying, is that of the moment of the peak.
TEST(AccountsTest, KeepTheCompositionOfThePeak) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Accounts accounts(1000);
    accounts.threads.emplace_back();
    for (std::uint32_t chain = 0; chain < 20; ++chain) accounts.chains.push_back({accounts.tree.child(0, 1, chain)});
    std::vector<std::int64_t> now(20), best(20);
    std::int64_t total = 0, most = 0;
    std::vector<Block> live;
    for (int turn = 0; turn < 2000; ++turn) {
      if (random() % 100 < 48 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        accounts.freed(live.back(), false);
        now[live.back().chain] -= live.back().bytes;
        total -= live.back().bytes;
        live.pop_back();
      } else {
        Block block;
        block.bytes = random() % 5000;
        block.chain = random() % 20;
        block.blocks = 1;
        accounts.allocated(block, block.bytes);
        live.push_back(block);
        now[block.chain] += block.bytes;
        total += block.bytes;
      }
      if (total > most) {
        most = total;
        best = now;
      }
    }
    ASSERT_EQ(accounts.peak_bytes, most);
    for (std::uint32_t chain = 0; chain < 20; ++chain) ASSERT_EQ(accounts.at_peak(accounts.chains[chain]), best[chain]);
  }
}

// What is recorded stays within the rate of the truth at every look, and spikes between looks are in it.
TEST(LossyRecorderTest, StaysWithinItsRate) {
  CallTree tree(100);
  LossyRecorder recorder;
  const std::uint32_t node = tree.child(0, 1, 1);
  std::mt19937 random(8);
  std::int64_t truth = 0;
  for (std::uint64_t look = 1; look < 3000; ++look) {
    for (int event = 0; event < 5; ++event) {
      std::int64_t bytes = static_cast<std::int64_t>(random() % 20'000) - 9'000;
      bytes = std::max(bytes, -truth);
      tree.add(node, bytes);
      truth += bytes;
    }
    recorder.look(tree, look * 1'000'000, 0);
    const double allowed = Pace::kFirstRate * static_cast<double>(std::max(tree[node].recorded, LossyRecorder::kFloor));
    ASSERT_TRUE(truth <= LossyRecorder::kFloor ||
                std::abs(static_cast<double>(truth - tree[node].recorded)) <= allowed + 1);
  }
  EXPECT_LT(recorder.records(), 2 * 3000u);
}

// However long a program runs, nothing goes beyond the limit, and in each quarter of the run something is
// recorded.
TEST(LossyRecorderTest, KeepsRoomForALongRun) {
  for (const std::size_t limit : {30'000u, 100'000u, 10'000'000u}) {
    for (const std::uint64_t seconds : {60u, 1'000u, 20'000u}) {
      constexpr std::uint32_t kNodes = 50;
      CallTree tree(1000);
      LossyRecorder recorder;
      Pace pace;
      std::uint32_t nodes[kNodes];
      for (std::uint32_t index = 0; index < kNodes; ++index) nodes[index] = tree.child(0, 1, index + 1);
      std::mt19937 random(static_cast<unsigned>(seconds));
      const std::uint64_t looks = 20'000, step = seconds * 1'000'000 / looks;
      std::uint64_t records_then = 0, in_quarter[4] = {};
      for (std::uint64_t look = 1; look <= looks; ++look) {
        for (int event = 0; event < 5; ++event) {
          const std::uint32_t node = nodes[random() % kNodes];
          tree.add(node, std::max<std::int64_t>(random() % 2'000'000 - std::int64_t{1'000'000}, -tree[node].bytes));
        }
        pace.keep(static_cast<double>(recorder.pending().size()) / static_cast<double>(limit), look * step);
        recorder.look(tree, look * step, 0, pace);
        in_quarter[(look - 1) * 4 / looks] += recorder.records() - std::exchange(records_then, recorder.records());
      }
      EXPECT_LE(recorder.pending().size(), limit) << limit << ", " << seconds << " s";
      for (const std::uint64_t records : in_quarter) EXPECT_GT(records, 0u) << limit << ", " << seconds << " s";
      EXPECT_EQ(pace.limited(), recorder.pending().size() >= limit / 2);
      EXPECT_EQ(pace.coarsest_rate() > Pace::kFirstRate, pace.limited());
    }
  }
}

// What the end takes that tells of all there may be leaves room for what is recorded on the way.
TEST(FileBudgetTest, NeverPutsAllAside) {
  for (std::uint64_t limit = FileBudget::kSmallest; limit < 1u << 30; limit += limit / 3) {
    const FileBudget budget(limit);
    const std::uint64_t most =
        FileBudget::aside(budget.most_nodes(), budget.most_nodes(), budget.most_threads(), limit >> 13);
    EXPECT_TRUE(budget.room(0, most, limit / 8)) << limit;
    EXPECT_LT(budget.share(limit / 16, most), 0.5) << limit;
    EXPECT_FALSE(budget.room(limit - most, most, 1)) << limit;
    EXPECT_GE(budget.share(limit - most, most), 1) << limit;
  }
}

// Without room for what was loaded in its place, addresses are nobody's, not the unloaded one's.
TEST(ModulesTest, WithoutRoomForgetWhatWasUnloadedAllTheSame) {
  Modules modules;
  EXPECT_TRUE(modules.add({100, 200, 100, "first", "aa", false}));
  EXPECT_FALSE(modules.add({150, 250, 150, "second", "bb", false}, false));
  std::uint64_t offset;
  EXPECT_EQ(modules.locate(160, offset), Modules::kNone);
  EXPECT_EQ(modules.locate(120, offset), Modules::kNone);
  EXPECT_EQ(modules.size(), 2u);
}

TEST(ModulesTest, RememberWhatWasUnloaded) {
  Modules modules;
  modules.add({100, 200, 100, "first", "aa", false});
  std::uint64_t offset;
  EXPECT_EQ(modules.locate(150, offset), 1u);
  EXPECT_EQ(offset, 50u);
  modules.add({100, 200, 100, "second", "bb", false});
  EXPECT_EQ(modules.locate(150, offset), 2u);
  modules.add({100, 200, 100, "second", "bb", false});
  EXPECT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules.locate(500, offset), Modules::kNone);
  EXPECT_EQ(offset, 500u);
}

}  // namespace
