// SPDX-License-Identifier: Apache-2.0
// Successors: each body runs once, in a thread that is neither the caller's nor alive any more afterwards.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "mutators/kit/successors.hpp"

namespace heapyard::kit {
namespace {

TEST(Successors, RunOneAfterTheOtherEachInAThreadOfItsOwn) {
  struct AtExit {
    int* ended;
    ~AtExit() { ++*ended; }
  };
  const Successors successors;
  const Worker worker;
  int ran = 0, ended = 0;
  for (int i = 0; i < 20; ++i) {
    successors.run(worker, [&, caller = std::this_thread::get_id()] {
      EXPECT_NE(std::this_thread::get_id(), caller);
      static thread_local AtExit at_exit{nullptr};  // a fresh one in each thread
      EXPECT_EQ(at_exit.ended, nullptr);
      at_exit.ended = &ended;
      EXPECT_EQ(ended, ran);  // the one before has ended
      ++ran;
    });
    ASSERT_EQ(ran, i + 1);
    ASSERT_EQ(ended, ran);
  }
}

}  // namespace
}  // namespace heapyard::kit
