// SPDX-License-Identifier: Apache-2.0
// The short protocols of the heaps under every schedule; and, so that this proves something, the same with every order
// of the heaps relaxed, which must be caught. What each order is for heap_schedules tells, on request.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "heap/layers/gate.hpp"
#include "hooks.hpp"
#include "protocols.hpp"

namespace heapyard::model {
namespace {

class Quick : public testing::TestWithParam<Protocol> {};

TEST_P(Quick, IsRightUnderEverySchedule) {
  Options options;
  options.most = 10'000;
  const Outcome outcome = explore(GetParam().program, options);
  EXPECT_EQ(outcome.fault, "") << testing::PrintToString(outcome.schedule);
  EXPECT_TRUE(outcome.complete);
}

TEST_P(Quick, IsCaughtWithoutItsOrders) {
  Options options;
  options.most = 10'000;
  const Outcome right = explore(GetParam().program, options);
  for (const auto& [site, order] : right.sites) {
    if (place_name(site.at).starts_with("heap/")) options.weakened[site] = std::memory_order_relaxed;
  }
  EXPECT_FALSE(options.weakened.empty());
  EXPECT_NE(explore(GetParam().program, options).fault, "");
}

std::vector<Protocol> quick() {
  std::vector<Protocol> some;
  for (Protocol& protocol : protocols()) {
    if (protocol.quick) some.push_back(std::move(protocol));
  }
  return some;
}
INSTANTIATE_TEST_SUITE_P(Protocols, Quick, testing::ValuesIn(quick()),
                         [](const auto& info) { return std::to_string(info.index); });

// A thread that ends beside a fork leaves its front end, and the fork stops it. Without a fence on either side neither
// may see the other on a machine with weak memory, and the front end stays for ever.
TEST(Protocols, AFrontEndLeftBehindIsStoppedByOneOfTwo) {
  using Gate = GateOf<core::Concurrency, 1>;
  const Program program = [](Bodies& bodies) {
    struct State {
      Gate::Place place{};
      Gate gate;
      Held front_end;
      void stop_left_behind() {
        while (Gate::Place* place = gate.take_left_behind()) static_cast<Held*>(place->front_end)->take();
      }
    };
    auto state = std::make_shared<State>();
    state->gate.close();
    bodies.push_back([=] {
      state->gate.leave_behind(state->place, &state->front_end);
      if (!state->gate.closed()) state->stop_left_behind();
    });
    bodies.push_back([=] {
      state->gate.open_in_child(0);  // as open(), whose wake is a fence on Linux
      state->stop_left_behind();
    });
    return [=] { return state->front_end.held(); };
  };
  const Outcome right = explore(program);
  EXPECT_EQ(right.fault, "");
  EXPECT_TRUE(right.complete);
  Options options;
  for (const auto& [site, order] : right.sites) {
    if (site.kind == Kind::fence) options.weakened[site] = std::memory_order_relaxed;
  }
  EXPECT_GE(options.weakened.size(), 2u);  // more where the compiler copied one
  EXPECT_NE(explore(program, options).fault, "");
}

// What the checker must tell, beside wrong results: races of plain memory, and threads that wait for ever.
TEST(Checker, TellsRacesAndDeadlocks) {
  const Outcome race = explore([](Bodies& bodies) {
    auto plain = std::make_shared<int>(0);
    for (int t = 0; t < 2; ++t) bodies.push_back([=] { *plain = t; });
    return [] { return true; };
  });
  EXPECT_NE(race.fault.find("a data race: tests/native/model/protocols_test.cpp:"), std::string::npos) << race.fault;
  const Outcome circle = explore([](Bodies& bodies) {
    auto locks = std::make_shared<std::array<Lock, 2>>();
    for (unsigned t = 0; t < 2; ++t) {
      bodies.push_back([=] {
        (*locks)[t].lock();
        (*locks)[1 - t].lock();
        (*locks)[1 - t].unlock();
        (*locks)[t].unlock();
      });
    }
    return [] { return true; };
  });
  EXPECT_EQ(circle.fault, "threads wait for each other, or for nothing");
}

// Few preemptions find most faults; none finds no race of two steps.
TEST(Checker, BoundsPreemptions) {
  const Program lost = [](Bodies& bodies) {
    auto sum = std::make_shared<std::atomic<int>>(0);
    for (int t = 0; t < 2; ++t) {
      bodies.push_back([=] { sum->store(sum->load(std::memory_order_seq_cst) + 1, std::memory_order_seq_cst); });
    }
    return [=] { return sum->load() == 2; };
  };
  Options options;
  options.reduces = false;
  options.preemptions = 1;
  EXPECT_EQ(explore(lost, options).fault, "the last check");
}

}  // namespace
}  // namespace heapyard::model
