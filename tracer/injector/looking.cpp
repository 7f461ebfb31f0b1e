// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/looking.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "tracer/injector/interrupted_call.hpp"
#include "tracer/injector/status_field.hpp"
#include "tracer/injector/thread_sight.hpp"
#include "tracer/injector/whereabouts.hpp"

namespace heapyard::injector {
namespace {

using namespace std::chrono_literals;
constexpr auto kPatienceForAPlace = 5s;  // for a safe place
constexpr auto kUntilStopped = 200ms;    // of a thread that was interrupted
constexpr auto kUntilItWaitsAnew = 2s;   // of one whose wait has a time limit
constexpr auto kPause = 5ms;             // between rounds
constexpr std::size_t kMostLooks = 64;   // in a round

// One injector per process at a time. The name goes when its owner does, however that ends.
bool is_the_only_one(pid_t pid) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "heapyard-injector-%d", pid);
  const int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  return lock < 0 || bind(lock, reinterpret_cast<sockaddr*>(&name), bytes) == 0 || errno != EADDRINUSE;
}

void block_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTOU})
    sigaddset(&held, signal);
  sigprocmask(SIG_BLOCK, &held, nullptr);
}

class Looking {
 public:
  explicit Looking(const Request& request) : request_(request), process_(request.pid) {}

  bool is_too_early() const { return process_.memory.error() == 0 && process_.is_beginning(); }

  // Looks for so long.
  Answer result(Clock::time_point until) {
    if (process_.memory.error() == ENOENT || process_.memory.error() == ESRCH) return gone();
    if (process_.memory.error() != 0) return not_permitted(process_.memory.error());
    if (std::string why = process_.why_not(); !why.empty())
      return process_.is_still_it() ? Answer{.ending = Ending::kRefused, .text = why} : gone();
    do {
      const std::vector<ThreadSight> threads = suited_threads(request_.pid);
      if (!process_.is_still_it()) return gone();
      if (sight_of(request_.pid, request_.pid).state == 'T')
        return {.ending = Ending::kRefused, .text = "it is stopped; continue it first (kill -CONT)"};
      for (std::size_t i = 0; i < std::min(threads.size(), kMostLooks); ++i)
        if (look(threads[i])) {
          part_with_the_rest();
          return answer_;
        }
      std::this_thread::sleep_for(kPause);
      part_with_the_rest();
    } while (Clock::now() < until);
    if (answer_.looks == 0 && seize_error_ != 0) return not_permitted(seize_error_);
    if (answer_.text.empty()) answer_.text = "every thread is in a system call that may not be interrupted";
    return answer_;
  }

 private:
  // True: the answer is there.
  bool look(const ThreadSight& before) {
    if (std::any_of(held_.begin(), held_.end(), [&](const Tracee& each) { return each.thread() == before.thread; }))
      return false;
    if (before.suited() == Suited::kWaitsLimited) wait_for_new_call(before);
    if (sight_of(request_.pid, before.thread).suited() == Suited::kNot) return false;
    auto seized = Tracee::seize(before.thread);
    if (!seized) return cannot_seize(before.thread, errno);
    Tracee tracee = *seized;
    ++answer_.looks;
    if (!tracee.interrupt()) return keep(tracee);
    const auto asked = Clock::now();
    Stop stop = tracee.wait(asked + kUntilStopped);
    while (stop == Stop::kSignal && tracee.go_on(tracee.signal())) stop = tracee.wait(asked + kUntilStopped);
    if (stop == Stop::kGone) return false;
    if (stop == Stop::kGroup) return part_with(tracee);
    if (stop != Stop::kAsked) return keep(tracee);
    const auto stopped = Clock::now();
    if (!process_.is_still_it()) {
      tracee.let_go();
      return answer_ = gone(), true;
    }
    user_regs_struct registers;
    if (!natural_registers(tracee, registers)) return keep(tracee);
    const Whereabouts found = whereabouts(process_, tracee, registers);
    if (found.fit) {
      call_in(process_, tracee, registers, request_, answer_);
      answer_.stopped = (Clock::now() - stopped).count();
      return true;
    }
    part_with(tracee);
    answer_.longest_look = std::max<std::int64_t>(answer_.longest_look, (Clock::now() - stopped).count());
    answer_.text = found.why;
    if (found.final) answer_.ending = Ending::kRefused;
    return found.final;
  }

  // As they would be had nobody stopped the thread. False: it is gone.
  bool natural_registers(const Tracee& tracee, user_regs_struct& registers) {
    if (!tracee.registers(registers)) return false;
    if (!failed_by_stop(registers) || signal_is_pending(request_.pid, tracee.thread())) return true;
    unsigned char code[kBytesOfSyscall];
    if (!process_.memory.read(registers.rip - sizeof code, code) || code[0] != 0x0f || code[1] != 0x05) return true;
    registers = calling_again(registers);
    return tracee.set_registers(registers);
  }

  // A time limit begins anew after a stop: least is lost just after the thread has begun to wait.
  void wait_for_new_call(const ThreadSight& before) {
    const auto until = Clock::now() + kUntilItWaitsAnew;
    while (Clock::now() < until && sight_of(request_.pid, before.thread).switches == before.switches) {
      std::this_thread::sleep_for(200us);
      part_with_the_rest();
    }
  }

  // A thread that stops late, or that was killed while it was held. Both return false, as look() does.
  bool keep(const Tracee& tracee) {
    held_.push_back(tracee);
    return false;
  }
  bool part_with(const Tracee& tracee) { return tracee.let_go() ? false : keep(tracee); }

  // Lets those go that have stopped, and hears of the end of those that have ended: until then another thread of the
  // process that execs waits for them.
  void part_with_the_rest() {
    std::erase_if(held_, [&](Tracee& each) {
      const Stop stop = each.wait(Clock::now());
      if (stop == Stop::kLate) return false;
      user_regs_struct registers;
      if (stop == Stop::kGone) return true;
      if (stop == Stop::kSignal) return each.go_on(each.signal()), false;
      return natural_registers(each, registers) && each.let_go();
    });
  }

  // A thread that is ending cannot be held, either, and the next one may. True: no other one can be.
  bool cannot_seize(pid_t thread, int error) {
    if (error == ESRCH) return false;
    seize_error_ = error;
    if (const auto tracer = status_field(request_.pid, thread, "TracerPid:"); tracer && tracer != 0u) {
      answer_ = {.ending = Ending::kNotPermitted, .text = "process " + std::to_string(*tracer) + " holds it"};
      return true;
    }
    return false;
  }

  static Answer not_permitted(int error) { return {.ending = Ending::kNotPermitted, .text = std::strerror(error)}; }

  static Answer gone() { return {.ending = Ending::kGone, .text = "it has ended, or runs another program now"}; }

  const Request& request_;
  TargetProcess process_;
  Answer answer_;
  std::vector<Tracee> held_;  // beside the one that is looked at
  int seize_error_ = 0;
};

}  // namespace

Answer inject(const Request& request) {
  block_signals();
  if (!is_the_only_one(request.pid))
    return {.ending = Ending::kBusy, .text = "another heapyard is attaching to it just now"};
  const auto until = Clock::now() + kPatienceForAPlace;
  for (;;) {
    Looking looking(request);
    if (!looking.is_too_early() || Clock::now() >= until) return looking.result(until);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace heapyard::injector
