// SPDX-License-Identifier: Apache-2.0
// Which threads may be stopped, and in which order; and what /proc tells of one that waits.
#include "tracer/injector/thread_sight.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace heapyard::injector {
namespace {

ThreadSight in_call(long call, std::array<std::uint64_t, 6> args = {}, char state = 'S') {
  ThreadSight sight;
  sight.state = state;
  sight.call = call;
  sight.args = args;
  return sight;
}

TEST(ThreadSight, SuitedBest) {
  EXPECT_EQ(in_call(SYS_nanosleep).suited(), Suited::kRestarts);
  EXPECT_EQ(in_call(SYS_futex).suited(), Suited::kRestarts);
  EXPECT_EQ(in_call(SYS_read).suited(), Suited::kRestarts);
  EXPECT_EQ(in_call(-1, {}, 'R').suited(), Suited::kRuns);
  EXPECT_EQ(in_call(SYS_epoll_wait, {3, 0, 1, ~0ull}).suited(), Suited::kWaits);
  EXPECT_EQ(in_call(SYS_epoll_wait, {3, 0, 1, 100}).suited(), Suited::kWaitsLimited);
  EXPECT_EQ(in_call(SYS_io_uring_enter, {3, 0, 1, 1}).suited(), Suited::kWaits);
  EXPECT_EQ(in_call(SYS_io_uring_enter, {3, 0, 1, 9}).suited(), Suited::kWaitsLimited);
}

TEST(ThreadSight, NotWhatAStopCutsShort) {
  for (const long call : {SYS_write, SYS_writev, SYS_sendto, SYS_sendfile, SYS_splice, SYS_recvmmsg})
    EXPECT_EQ(in_call(call).suited(), Suited::kNot) << call;
  EXPECT_EQ(in_call(SYS_recvfrom, {3, 0, 10, MSG_WAITALL}).suited(), Suited::kNot);
  EXPECT_EQ(in_call(SYS_recvfrom, {3, 0, 10, 0}).suited(), Suited::kRestarts);
  EXPECT_EQ(in_call(SYS_io_uring_enter, {3, 1, 1, 1}).suited(), Suited::kNot);
  for (const char state : {'D', 'T', 't', 'Z', 'X', '?'})
    EXPECT_EQ(in_call(-1, {}, state).suited(), Suited::kNot) << state;
}

TEST(ThreadSight, OfAThreadThatWaits) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<pid_t> id{0};
  std::thread waiting([&] {
    id = static_cast<pid_t>(syscall(SYS_gettid));
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  });
  while (id == 0) std::this_thread::yield();
  ThreadSight sight = sight_of(getpid(), id);
  while (sight.call != SYS_read || sight.state != 'S') sight = sight_of(getpid(), id);
  EXPECT_EQ(sight.args[0], static_cast<std::uint64_t>(ends[0]));
  EXPECT_EQ(sight.args[2], 1u);
  EXPECT_EQ(threads_of(getpid()).size(), 2u);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  waiting.join();
  EXPECT_EQ(sight_of(getpid(), id).suited(), Suited::kNot);
}

}  // namespace
}  // namespace heapyard::injector
