// SPDX-License-Identifier: Apache-2.0
// What programs that are attached to share: they work until their standard input ends, check every answer that they
// get, and say in one line how many they checked or what was wrong.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

inline constexpr int kLacking = 77;  // exit status where the machine lacks what a program is about

[[noreturn]] inline void wrong(const char* what, long got = -1) {
  std::printf("wrong: %s: %ld (errno %d, %s)\n", what, got, errno, std::strerror(errno));
  std::fflush(stdout);
  std::_Exit(1);
}

[[noreturn]] inline void lacking(const char* what) {
  std::printf("lacking: %s\n", what);
  std::fflush(stdout);
  std::_Exit(kLacking);
}

inline void right(bool holds, const char* what, long got = -1) {
  if (!holds) wrong(what, got);
}

inline void begin() {
  std::puts("working");
  std::fflush(stdout);
}

inline void end(long answers) {
  std::printf("right %ld\n", answers);
  std::fflush(stdout);
}

// Standard input has ended. O(1), never waits.
inline bool asked_to_end() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}

inline std::int64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

inline void pause_for(long microseconds) {
  timespec left{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  while (nanosleep(&left, &left) != 0) {
  }
}

// A child that calls `step(n)` for n = 0, 1, ... with a pause of 0.3 to 3 ms, until standard input ends; then `last()`.
template <class Step, class Last>
pid_t in_child(Step step, Last last) {
  const pid_t parent = getpid(), child = fork();
  right(child >= 0, "fork");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  unsigned random = 1;
  for (std::uint64_t turn = 0; getppid() == parent && !asked_to_end(); ++turn) {
    random = random * 1664525 + 1013904223;
    pause_for(300 + random % 2700);
    step(turn);
  }
  last();
  std::_Exit(0);
}

// A child that queues SIGRTMIN to this process with the numbers 0, 1, ...; the last number is -1.
inline pid_t child_that_signals() {
  const pid_t parent = getpid();
  const auto send = [=](int value) {
    sigval word;
    word.sival_int = value;
    sigqueue(parent, SIGRTMIN, word);
  };
  return in_child([=](std::uint64_t turn) { send(static_cast<int>(turn)); }, [=] { send(-1); });
}

inline void join_child(pid_t child) {
  int status;
  while (waitpid(child, &status, 0) < 0) right(errno == EINTR, "waitpid");
  right(status == 0, "the child's end", status);
}
