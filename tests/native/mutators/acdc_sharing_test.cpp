// SPDX-License-Identifier: Apache-2.0
// The last of the sharing threads, and only it, learns that it is the last; descriptors and pool under several threads.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "mutators/acdc/pool.hpp"

namespace heapyard::acdc {
namespace {

class SharersOf : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Threads, SharersOf, testing::Values(1, 2, 63, 64, 65, 127, 128, 129, 192, 193, 1024));

TEST_P(SharersOf, ExactlyTheLastLeaverIsTold) {
  const std::size_t n = GetParam();
  alignas(16) unsigned char memory[Sharers::bytes(1024)];
  Random random(n);
  for (int round = 0; round < 200; ++round) {
    Sharers sharers(memory, n);
    sharers.clear();
    std::vector<std::size_t> members(n);
    std::iota(members.begin(), members.end(), 0);
    for (std::size_t i = 0; i + 1 < n; ++i) std::swap(members[i], members[i + random.below(n - i)]);
    members.resize(1 + random.below(n));
    for (const std::size_t member : members) sharers.add(member);
    for (std::size_t i = 0; i < members.size(); ++i) ASSERT_EQ(sharers.leave(members[i]), i + 1 == members.size());
  }
}

TEST_P(SharersOf, ConcurrentLeaversAgreeOnOneLast) {
  const std::size_t n = GetParam();
  constexpr std::size_t kLeavers = 4;
  alignas(16) unsigned char memory[Sharers::bytes(1024)];
  for (int round = 0; round < 100; ++round) {
    Sharers sharers(memory, n);
    sharers.clear();
    for (std::size_t i = 0; i < n; ++i) sharers.add(i);
    std::atomic<int> lasts{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kLeavers; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < n; i += kLeavers) lasts += sharers.leave(i);
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(lasts, 1);
  }
}

TEST(Descriptors, ComeBackToTheirOwnerFromAnyThread) {
  kit::Arena arena;
  arena.reserve(1 << 20);
  Descriptors descriptors;
  descriptors.start(arena, {1, 0});
  constexpr int kRounds = 2000, kBatch = 16;
  std::vector<std::thread> threads;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<SizeClass*> batch;
    for (int i = 0; i < kBatch; ++i) batch.push_back(descriptors.take());
    for (int i = 0; i < kBatch; ++i)
      for (int k = 0; k < i; ++k) ASSERT_NE(batch[i], batch[k]);
    if (round % 2) {
      for (SizeClass* c : batch) descriptors.give_back_own(c);
    } else {
      std::thread([&] {
        for (SizeClass* c : batch) descriptors.give_back(c);
      }).join();
    }
  }
  EXPECT_LE(arena.used_bytes(), 3 * kBatch * sizeof(SizeClass));  // nothing leaks, whoever gives back
}

// The published code files shared classes by the producer's clock and reads them by the consumer's: lifetimes come out
// scrambled. Here a class arrives under its liveness, whatever any clock says.
TEST(Pool, ClassesArriveUnderTheirLiveness) {
  kit::Arena arena;
  arena.reserve(1 << 20);
  Pool pool;
  pool.start(arena, 3, 10);
  SizeClass classes[20]{};
  LifetimeClass outbox{};
  for (std::uint32_t i = 0; i < 20; ++i) {
    classes[i].liveness = 1 + i % 10;
    classes[i].local.of = &classes[i];
    outbox.append(&classes[i].local);
  }
  pool.send(1, outbox);
  EXPECT_EQ(outbox.first, nullptr);
  int arrived = 0;
  pool.retrieve(0, [&](std::uint64_t, LifetimeClass&) { FAIL() << "not for thread 0"; });
  pool.retrieve(1, [&](std::uint64_t liveness, LifetimeClass& classes_here) {
    for (Link* link = classes_here.take_all(); link; link = link->next) {
      EXPECT_EQ(link->of->liveness, liveness);
      ++arrived;
    }
  });
  EXPECT_EQ(arrived, 20);
}

TEST(LifetimeClass, SpliceKeepsAllAndTheirOrder) {
  Link links[5]{};
  LifetimeClass a{}, b{}, empty{};
  a.append(&links[0]);
  a.append(&links[1]);
  b.append(&links[2]);
  b.append(&links[3]);
  a.splice(b);
  a.splice(empty);
  a.append(&links[4]);
  EXPECT_EQ(b.first, nullptr);
  int i = 0;
  for (Link* link = a.take_all(); link; link = link->next) EXPECT_EQ(link, &links[i++]);
  EXPECT_EQ(i, 5);
  EXPECT_EQ(a.first, nullptr);
}

}  // namespace
}  // namespace heapyard::acdc
