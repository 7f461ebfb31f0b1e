// SPDX-License-Identifier: Apache-2.0
#include "interruptions.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/random.hpp"

namespace heapyard::fuzz {
namespace {

constexpr int kSignal = SIGUSR2;
constexpr long kLeast = 100'000, kMost = 1'000'000;  // nanoseconds between two

// The kernel's structure, whose field for a thread glibc names only since 2.35.
sigevent to_this_thread() {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSignal;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  return event;
}

thread_local Random random{0};

void on_signal(int) {
  const int error = errno;
  const std::uint64_t chosen = random.below(8);
  if (chosen < 2) {
    sched_yield();
  } else if (chosen < 5) {  // some tenths of a microsecond to some ten
    for (std::uint64_t turns = random.below(std::uint64_t{64} << random.below(8)); turns > 0; --turns)
      __asm__ volatile("");
  } else {
    const timespec some{0, static_cast<long>(1000u << chosen)};  // 32 to 128 microseconds
    nanosleep(&some, nullptr);
  }
  errno = error;
}

}  // namespace

void take_interruptions() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigaction(kSignal, &action, nullptr);
}

Interruptions::Interruptions(std::uint64_t seed) {
  random = Random(seed);
  sigevent event = to_this_thread();
  timer_t timer{};
  there_ = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
  if (!there_) return;
  timer_ = timer;
  const long each = kLeast + static_cast<long>(random.below(static_cast<std::uint64_t>(kMost - kLeast)));
  const itimerspec often{{0, each}, {0, each}};
  timer_settime(timer, 0, &often, nullptr);
}

Interruptions::~Interruptions() {
  if (there_) timer_delete(static_cast<timer_t>(timer_));
}

}  // namespace heapyard::fuzz
