// SPDX-License-Identifier: Apache-2.0
// All rings of a program as one stream: the order of its events, and what is told on the way to them.
#include "tracer/collector/ring_merger.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tracer/collector/late_events.hpp"
#include "tracer/session/ring.hpp"

namespace {

using namespace heapyard::tracer;

constexpr std::uint64_t kStart = 1000, kForever = ~std::uint64_t{0};

// The shared memory of a program with a few rings.
class Program {
 public:
  explicit Program(std::uint32_t rings) : layout_(rings, 1 << 12, 64) {
    base_ = mmap(nullptr, layout_.end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    session = Session(base_, layout_);
    session.header().start_stamp = kStart;
    session.header().rings = rings;
    session.header().highest_ring = rings;
    for (std::uint32_t ring = 0; ring < rings; ++ring)
      writers.emplace_back(session.ring(ring), session.words(ring), 1 << 12, session.header().bell);
  }
  ~Program() { munmap(base_, layout_.end); }

  void write(std::uint32_t ring, const std::vector<std::uint64_t>& words) {
    std::uint64_t* at = writers[ring].reserve(words.size());
    ASSERT_NE(at, nullptr);
    std::copy(words.begin(), words.end(), at);
    writers[ring].publish(words.size());
  }
  void free(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp) {
    write(ring, {first_word(Kind::kFree, address), stamp});
  }

  Session session;
  std::vector<RingWriter> writers;

 private:
  Layout layout_;
  void* base_;
};

// Notes what it is told.
struct Notes {
  std::vector<std::string> said;
  std::vector<std::uint64_t> stamps;
  std::vector<Owned> blocks;
  bool knows = true;

  void use_rings(std::uint32_t) {}
  bool knows_a_thread() const { return knows; }
  void thread(std::uint32_t ring, std::uint64_t owner) { note("thread", ring, owner), knows = true; }
  void chain(std::uint32_t ring, const std::uint64_t* words) { note("chain", ring, words[1]); }
  void module(const std::uint64_t* words) { note("module", 0, words[1]); }
  void owned(Kind, const Owned& owned, std::uint64_t stamp) {
    blocks.push_back(owned);
    stamps.push_back(stamp);
  }
  void allocation(std::uint32_t, std::uint64_t, std::uint64_t stamp, std::uint64_t, const Drawn&, std::uint64_t) {
    stamps.push_back(stamp);
  }
  void release(std::uint32_t ring, std::uint64_t address, std::uint64_t stamp, bool) {
    note("free", ring, address);
    stamps.push_back(stamp);
  }
  void stay(std::uint32_t ring, std::uint64_t address) { note("stay", ring, address); }
  void mark(const std::uint64_t*) { note("mark", 0, 0); }
  void script(const std::uint64_t* words) { note("script", 0, words[1]); }
  void mapping(std::uint64_t, std::uint64_t, std::uint64_t) { note("mapping", 0, 0); }
  void unmapping(std::uint64_t, std::uint64_t) { note("unmapping", 0, 0); }

  void note(const char* what, std::uint32_t ring, std::uint64_t value) {
    said.push_back(std::string(what) + " " + std::to_string(ring) + " " + std::to_string(value));
  }
};

TEST(RingMerger, TakesTheEventsOfAllRingsInTheOrderOfTheirStamps) {
  Program program(5);
  std::mt19937 random(1);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t stamp = kStart + 1; expected.size() < 500; stamp += 2) {  // the lowest bit is not compared
    program.free(random() % 5, 16 * stamp, stamp);
    expected.push_back(stamp);
  }
  RingMerger merger(program.session);
  Notes notes;
  EXPECT_TRUE(merger.drain(kForever, notes));
  EXPECT_EQ(notes.stamps, expected);
  EXPECT_EQ(merger.events(), expected.size());
  for (std::uint32_t ring = 0; ring < 5; ++ring)
    EXPECT_EQ(program.session.ring(ring).tail.load(), program.session.ring(ring).head.load());
  EXPECT_FALSE(merger.drain(kForever, notes));
}

TEST(RingMerger, LeavesWhatIsLaterThanItsLimit) {
  Program program(2);
  program.free(0, 16, kStart + 11);
  program.free(1, 32, kStart + 13);
  program.free(0, 48, kStart + 15);
  RingMerger merger(program.session);
  Notes notes;
  EXPECT_TRUE(merger.drain(kStart + 13, notes));
  EXPECT_EQ(notes.said, (std::vector<std::string>{"free 0 16", "free 1 32"}));
  EXPECT_TRUE(merger.drain(kForever, notes));
  EXPECT_EQ(notes.said.back(), "free 0 48");
}

TEST(RingMerger, TellsWhoseEventsTheseAre) {
  Program program(1);
  program.write(0, {first_word(Kind::kThread, 7)});
  program.free(0, 16, kStart + 1);
  program.write(0, {first_word(Kind::kThread, 8)});
  program.free(0, 32, kStart + 3);
  RingMerger merger(program.session);
  Notes notes;
  merger.drain(kForever, notes);
  EXPECT_EQ(notes.said, (std::vector<std::string>{"thread 0 7", "free 0 16", "thread 0 8", "free 0 32"}));
}

TEST(RingMerger, NamesSomebodyWhereTheProgramHasWrittenOverIt) {
  Program program(1);
  program.free(0, 16, kStart + 1);
  RingMerger merger(program.session);
  Notes notes;
  notes.knows = false;
  merger.drain(kForever, notes);
  EXPECT_EQ(notes.said, (std::vector<std::string>{"thread 0 0", "free 0 16"}));
}

TEST(RingMerger, TellsOfAModuleBeforeAnyChainAndOnce) {
  Program program(2);
  program.write(0, {first_word(Kind::kChain, 1), 5, 0x1234});
  program.free(0, 16, kStart + 1);
  program.write(1, {first_word(Kind::kModule, 0), 0x1000, 0x2000, 0, 0, 0, 0});
  program.free(1, 32, kStart + 3);
  program.session.header().modules_sent = 1;
  RingMerger merger(program.session);
  Notes notes;
  merger.drain(kForever, notes);
  EXPECT_EQ(notes.said, (std::vector<std::string>{"module 0 4096", "chain 0 5", "free 0 16", "free 1 32"}));
}

TEST(RingMerger, ReadsEventsByOwnerInEveryForm) {
  Program program(1);
  const Owner owner = Owner::of(3, 2);
  program.write(0, {first_word(Kind::kSince, 40)});
  program.write(0, {brief(Kind::kOwned, {owner, 100})});
  program.write(0, {first_word(Kind::kOwned, 50), std::uint64_t{200} << Owner::kBits | owner.word});
  program.write(0, {first_word(Kind::kMore, 1), first_word(Kind::kOwned, 60), owner.word});
  program.write(0, {first_word(Kind::kOwned, 70), owner.word});  // what was more is of one event only
  RingMerger merger(program.session);
  Notes notes;
  merger.drain(kForever, notes);
  EXPECT_EQ(notes.stamps, (std::vector<std::uint64_t>{kStart + 40, kStart + 50, kStart + 60, kStart + 70}));
  std::vector<std::uint64_t> sizes;
  for (const Owned& block : notes.blocks) {
    EXPECT_EQ(block.owner.word, owner.word);
    sizes.push_back(block.size);
  }
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{100, 200, std::uint64_t{1} << Owner::kSizeBits, 0}));
}

TEST(RingMerger, LeavesOutTheRestOfARingThatMakesNoSense) {
  Program program(2);
  program.free(0, 16, kStart + 1);
  program.write(0, {std::uint64_t{0x7f} << 56});  // no such record
  program.free(0, 32, kStart + 3);
  program.free(1, 48, kStart + 5);
  RingMerger merger(program.session);
  Notes notes;
  merger.drain(kForever, notes);
  EXPECT_EQ(notes.said, (std::vector<std::string>{"free 0 16", "free 1 48"}));
  EXPECT_EQ(merger.torn(), 1u);
  program.free(0, 64, kStart + 7);
  merger.drain(kForever, notes);
  EXPECT_EQ(notes.said.back(), "free 0 64");
}

TEST(LateEvents, GiveBackTheOldestAllocationAndEveryFreeOnce) {
  LateEvents late;
  EXPECT_FALSE(late.any());
  EXPECT_FALSE(late.take_free(16));
  EXPECT_FALSE(late.take_allocation(16));
  late.add_free(16, 5, 0);
  EXPECT_FALSE(late.take_free(32));
  EXPECT_EQ(late.take_free(16), 5u);
  EXPECT_FALSE(late.any());
  for (const std::uint64_t stamp : {9, 7, 8}) late.add_allocation({16, stamp, 0, 0, 0, 0}, stamp, 0);
  for (const std::uint64_t stamp : {7, 8, 9}) EXPECT_EQ(late.take_allocation(16)->block.stamp, stamp);
  EXPECT_FALSE(late.any());
}

TEST(LateEvents, AreGivenUpAfterTwoSeconds) {
  LateEvents late;
  late.add_free(16, 5, 0);
  late.add_allocation({32, 6, 0, 0, 0, 0}, 100, 1'000'000);
  unsigned frees = 0, allocations = 0;
  const auto give_up = [&](std::uint64_t now, bool all) {
    late.give_up(
        now, all, [&] { ++frees; }, [&](const LateEvents::Allocation& event) { allocations += event.size == 100; });
  };
  give_up(1'999'999, false);
  EXPECT_EQ(frees + allocations, 0u);
  give_up(2'000'000, false);
  EXPECT_EQ(frees, 1u);
  EXPECT_EQ(allocations, 0u);
  give_up(2'000'000, true);
  EXPECT_EQ(allocations, 1u);
  EXPECT_FALSE(late.any());
}

}  // namespace
