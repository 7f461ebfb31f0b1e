// SPDX-License-Identifier: Apache-2.0
// What the simulated machine makes of the program's system calls: futexes and sleeps pass in simulated time, and clocks
// tell it. All others run as they are, and cost a constant.
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fatal.hpp"
#include "base/simulation.hpp"
#include "engine.hpp"
#include "guest_memory.hpp"

namespace heapyard::simulator {
namespace {

// What the clocks say at simulated time 0: fixed, so that a program that looks sees the same in each run.
constexpr std::uint64_t kMonotonicStart = 1'000'000'000'000;     // ns: a machine that has been up for 1000 s
constexpr std::uint64_t kRealStart = 1'767'225'600'000'000'000;  // ns: the first second of 2026

std::uint64_t nanoseconds_of(const timespec& time) {
  return time.tv_sec < 0
             ? 0
             : static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}
timespec timespec_of(std::uint64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
}

constexpr timespec kAtOnce{0, 0};

bool is_real(std::uint64_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

// No system calls on a real machine: the kernel's page of code (vDSO) answers in some 20 ns.
constexpr std::uint32_t kClockCycles = 60;
bool reads_clock(const SystemCall& call) {
  return (call.number == SYS_clock_gettime && call.arguments[0] <= CLOCK_MONOTONIC) ||
         call.number == SYS_gettimeofday || call.number == SYS_getcpu || call.number >= kSimulationBegin;
}

// QEMU keeps a table of all pages that the program maps, touched or not. A table that would fill the machine ends the
// run.
constexpr std::uint64_t kTablePerPage = 16;  // bytes, QEMU 7.2
// Smaller mappings come and go, and take next to nothing. What no process has room for the kernel refuses.
bool is_large(std::uint64_t bytes) { return bytes >= std::uint64_t{1} << 30 && bytes < std::uint64_t{1} << 47; }
void refuse_what_fills_the_machine(std::uint64_t mapped) {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const std::uint64_t table = mapped / 4096 * kTablePerPage;
  if (table / 4096 < pages / 2) return;
  fatal(kExitMachine, "the program reserves ", mapped >> 30, " GiB of addresses, for which QEMU takes ", table >> 30,
        " GiB of memory; this machine has ", pages >> 18, " GiB");
}

bool is_fork(const SystemCall& call) {
  if (call.number == SYS_fork || call.number == SYS_vfork) return true;
  return call.number == SYS_clone && !(call.arguments[0] & CLONE_THREAD);
}

}  // namespace

void Engine::before_system_call(unsigned vcpu, const SystemCall& call) {
  GuestThread& thread = *by_cpu_[vcpu];
  if (is_child_) return;
  if (thread.tid.load(std::memory_order_relaxed) == 0) thread.tid = gettid();
  if (current_ != &thread) take_turn(thread, false);  // it came here without the turn, when it was let go
  thread.passes = false;
  thread.call = call;
  thread.time = thread.loads.drain(thread.stores.drain(thread.time));
  thread.time += (reads_clock(call) ? kClockCycles : machine_.system_call_cycles) * kCycle;
  ++thread.counts[Count::kSystemCalls];
  const auto& arguments = call.arguments;
  switch (call.number) {
    case SYS_futex:
      futex(thread);
      break;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      nap(thread);
      break;
    case SYS_mmap:
      if (is_large(arguments[1])) refuse_what_fills_the_machine(reserved_ += arguments[1]);
      break;
    case SYS_munmap:
      if (is_large(arguments[1])) reserved_ -= std::min(reserved_, arguments[1]);
      memory_.drop(arguments[0], arguments[0] + arguments[1]);
      break;
    case SYS_madvise:
      if (arguments[2] == 4 /* MADV_DONTNEED */) memory_.drop(arguments[0], arguments[0] + arguments[1]);
      break;
    case SYS_execve: {
      char path[256] = {};
      for (std::size_t i = 0; i + 1 < sizeof path && read_guest(arguments[0] + i, path[i]) && path[i]; ++i) {
      }
      replaced_by_ = path;
      finish();
      break;
    }
    case SYS_setitimer:
      if (arguments[0] == ITIMER_REAL) set_timer(thread);
      break;
    case kSimulationResident:
      write_guest(arguments[0], memory_.directory().resident_pages() * std::uint64_t{4096});
      break;
    case kSimulationBegin:
      mark(false, thread);
      break;
    case kSimulationEnd:
      mark(true, thread);
      break;
    default:
      break;
  }
  if (is_fork(call)) ++forks_;
  thread.empties_code = is_fork(call) || call.number == SYS_exit_group || call.number == SYS_exit;
  thread.in_kernel = true;
}

void Engine::after_system_call(unsigned vcpu, std::int64_t number, std::int64_t result) {
  GuestThread& thread = *by_cpu_[vcpu];
  if (is_fork(thread.call) && getpid() != process_) {
    is_child_ = true;
    thread.horizon = thread.exact = kNever;
  }
  if (is_child_) return;
  thread.in_kernel = false;
  thread.empties_code = false;
  rejoin(thread);
  undisguise(thread);
  switch (number) {
    case SYS_clock_gettime:
    case SYS_gettimeofday:
    case SYS_getrusage:
      if (result == 0) tell_time(thread);
      break;
    case SYS_clone:
      if (result > 0 && !is_fork(thread.call)) await_arrival(static_cast<ThreadNumber>(threads_.size() - 1));
      break;
    case SYS_getcpu:
    case SYS_sched_getaffinity:
      if (result >= 0) tell_cpus(thread, result);
      break;
    case SYS_getrandom:
      if (result > 0) give_random(thread, result);
      break;
    case SYS_brk:
      if (heap_low_ == 0) heap_low_ = static_cast<std::uint64_t>(result);
      heap_high_ = std::max(heap_high_, static_cast<std::uint64_t>(result));
      break;
    default:
      break;
  }
}

// ---- futexes ----

void Engine::futex(GuestThread& thread) {
  const auto& [address, operation, value, timeout, other, extra] = thread.call.arguments;
  std::uint32_t now = 0;
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
      futex_wait(thread, true, ~0u);
      break;
    case FUTEX_WAIT_BITSET:
      futex_wait(thread, false, static_cast<std::uint32_t>(extra));
      break;
    case FUTEX_WAKE:
      wake(thread, address, static_cast<std::uint32_t>(value), ~0u);
      break;
    case FUTEX_WAKE_BITSET:
      wake(thread, address, static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(extra));
      break;
    case FUTEX_WAKE_OP:
      wake(thread, address, static_cast<std::uint32_t>(value), ~0u);
      wake(thread, other, static_cast<std::uint32_t>(timeout), ~0u);  // more than asked for is allowed
      break;
    case FUTEX_CMP_REQUEUE:
      if (!read_guest(address, now) || now != static_cast<std::uint32_t>(extra)) break;
      [[fallthrough]];
    case FUTEX_REQUEUE: {
      wake(thread, address, static_cast<std::uint32_t>(value), ~0u);
      const std::lock_guard lock(mutex_);
      queues_.move(address, other, static_cast<std::uint32_t>(timeout));
      break;
    }
    default:  // with priority inheritance: the kernel's own affair, and if it takes long another thread gets the turn
      break;
  }
}

// The thread sleeps here in simulated time. The system call that follows then returns at once: the word is made to
// differ from what is expected, or the time limit to be over.
void Engine::futex_wait(GuestThread& thread, bool relative, std::uint32_t bits) {
  const std::uint64_t address = thread.call.arguments[0], limit = thread.call.arguments[3];
  const auto expected = static_cast<std::uint32_t>(thread.call.arguments[2]);
  std::uint32_t word = 0;
  if (!read_guest(address, word) || word != expected) return;  // the kernel says so too
  Ticks deadline = kNever;
  if (limit) {
    timespec time;
    if (!read_guest(limit, time)) return;
    const bool real = thread.call.arguments[1] & FUTEX_CLOCK_REALTIME;
    const std::uint64_t start = relative ? 0 : real ? kRealStart : kMonotonicStart;
    const std::uint64_t nanoseconds = nanoseconds_of(time);
    deadline =
        std::max(ticks(nanoseconds > start ? nanoseconds - start : 0) + (relative ? thread.time : 0), thread.time);
  }
  ++thread.counts[Count::kFutexWaits];
  thread.wakes_late = false;
  const bool timed_out = sleep(thread, deadline, address, bits);
  if (thread.wakes_late || !read_guest(address, word) || word != expected) return;
  if (timed_out) {
    disguise(thread, limit, &kAtOnce, sizeof kAtOnce);
  } else {
    const std::uint32_t differs = ~expected;
    disguise(thread, address, &differs, sizeof differs);
  }
}

void Engine::nap(GuestThread& thread) {
  const auto& arguments = thread.call.arguments;
  const bool plain = thread.call.number == SYS_nanosleep;
  const std::uint64_t limit = plain ? arguments[0] : arguments[2];
  timespec time;
  if (!read_guest(limit, time) || time.tv_nsec < 0 || time.tv_nsec >= 1'000'000'000) return;
  std::uint64_t nanoseconds = nanoseconds_of(time);
  Ticks deadline = thread.time;
  if (!plain && (arguments[1] & TIMER_ABSTIME)) {
    const std::uint64_t start = is_real(arguments[0]) ? kRealStart : kMonotonicStart;
    deadline = std::max(deadline, ticks(nanoseconds > start ? nanoseconds - start : 0));
  } else {
    deadline += ticks(nanoseconds);
  }
  sleep(thread, deadline, 0, 0);
  disguise(thread, limit, &kAtOnce, sizeof kAtOnce);
}

void Engine::disguise(GuestThread& thread, std::uint64_t address, const void* as, std::uint32_t bytes) {
  Disguise& made = thread.disguise;
  if (!read_guest(address, made.was.data(), bytes) || !write_guest(address, as, bytes)) return;
  made.address = address;
  made.bytes = bytes;
}

void Engine::undisguise(GuestThread& thread) {
  if (thread.disguise.address) write_guest(thread.disguise.address, thread.disguise.was.data(), thread.disguise.bytes);
  thread.disguise.address = 0;
}

// ---- what the machine says of itself ----

void Engine::tell_time(GuestThread& thread) {
  const auto& arguments = thread.call.arguments;
  const auto busy_of = [&] { return thread.time - thread.started - thread.idle; };
  if (thread.call.number == SYS_clock_gettime) {
    std::uint64_t time;
    if (arguments[0] == CLOCK_THREAD_CPUTIME_ID)
      time = nanoseconds(busy_of());
    else if (arguments[0] == CLOCK_PROCESS_CPUTIME_ID)
      time = nanoseconds(process_busy());
    else
      time = nanoseconds(thread.time) + (is_real(arguments[0]) ? kRealStart : kMonotonicStart);
    write_guest(arguments[1], timespec_of(time));
  } else if (thread.call.number == SYS_gettimeofday) {
    const timespec time = timespec_of(nanoseconds(thread.time) + kRealStart);
    if (arguments[0]) write_guest(arguments[0], timeval{time.tv_sec, time.tv_nsec / 1000});
  } else {
    const bool own = arguments[0] == static_cast<std::uint64_t>(RUSAGE_THREAD);
    const timespec time = timespec_of(nanoseconds(own ? busy_of() : process_busy()));
    const timeval times[2]{{time.tv_sec, time.tv_nsec / 1000}, {0, 0}};  // in user mode, in the kernel
    write_guest(arguments[1], times, sizeof times);
    std::uint64_t faults = 0;
    for (const auto& each : threads_) faults += each->counts[Count::kPageFaults];
    write_guest(arguments[1] + offsetof(rusage, ru_minflt), own ? thread.counts[Count::kPageFaults] : faults);
  }
}

void Engine::tell_cpus(GuestThread& thread, std::int64_t result) {
  const auto& arguments = thread.call.arguments;
  if (thread.call.number == SYS_getcpu) {
    if (arguments[0]) write_guest(arguments[0], static_cast<std::uint32_t>(thread.core));
    if (arguments[1]) write_guest(arguments[1], static_cast<std::uint32_t>(memory_.cluster_of(thread.core)));
    return;
  }
  std::uint8_t mask[kMostCores / 8] = {};
  for (std::uint32_t core = 0; core < options_.cores; ++core)
    mask[core / 8] |= static_cast<std::uint8_t>(1u << core % 8);
  write_guest(arguments[2], mask, std::min<std::size_t>(sizeof mask, static_cast<std::size_t>(result)));
}

void Engine::give_random(GuestThread& thread, std::int64_t result) {
  for (std::int64_t at = 0; at < result; at += 8) {
    const std::uint64_t number = random_.next();
    write_guest(thread.call.arguments[0] + static_cast<std::uint64_t>(at), &number,
                static_cast<std::size_t>(std::min<std::int64_t>(8, result - at)));
  }
}

// The program's timer runs in simulated time; the kernel's is not armed.
void Engine::set_timer(GuestThread& thread) {
  itimerval timer;
  const std::uint64_t address = thread.call.arguments[1];
  if (!read_guest(address, timer)) return;
  const auto ticks_of = [this](const timeval& time) {
    return ticks(static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
                 static_cast<std::uint64_t>(time.tv_usec) * 1000);
  };
  const Ticks first = ticks_of(timer.it_value);
  timer_ = first ? thread.time + first : kNever;
  timer_interval_ = ticks_of(timer.it_interval);
  constexpr itimerval kNone{};
  disguise(thread, address, &kNone, sizeof kNone);
  const std::lock_guard lock(mutex_);
  refresh_horizon();
}

// The thread that has the turn, or the one that sleeps longest, gets the signal. The mutex is held.
void Engine::expire_timer(GuestThread& thread) {
  timer_ = timer_interval_ ? std::max(timer_ + timer_interval_, thread.time) : kNever;
  tgkill(process_, thread.tid, SIGALRM);
}

// The kit marks its measured phase.
void Engine::mark(bool end, GuestThread& thread) {
  Counts all;
  for (const auto& each : threads_) all += each->counts;
  if (end) {
    mark_end_ = thread.time;
    measured_ = all;
    measured_ -= at_begin_;
  } else {
    mark_begin_ = thread.time;
    at_begin_ = all;
    memory_.forget_line_counts();
  }
}

}  // namespace heapyard::simulator
