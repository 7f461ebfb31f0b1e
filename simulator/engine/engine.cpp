// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/clock.hpp"
#include "guest_memory.hpp"

namespace heapyard::simulator {

Engine::Engine(const Options& options)
    : options_(options),
      machine_(*options.machine),
      instruction_ticks_(static_cast<Ticks>(options.machine->cycles_per_instruction * kCycle)),
      quantum_(options.quantum_cycles * kCycle),
      process_(getpid()),
      real_start_(monotonic_ns()),
      memory_(*options.machine, options.cores, options.spread),
      turns_(options.seed, options.cores),
      random_(options.seed, 1) {
  watch();
}

void Engine::begin_thread(unsigned vcpu) {
  auto made = std::make_unique<GuestThread>();
  GuestThread& thread = *made;
  if (is_child_) {
    thread.horizon = thread.exact = kNever;
    by_cpu_[vcpu] = made.release();
    return;
  }
  const std::lock_guard lock(mutex_);
  Ticks time = now();
  if (const GuestThread* const creator = current_) {
    time += machine_.wake_cycles * kCycle;
    thread.clear_address = creator->call.arguments[3];  // clone(flags, stack, parent_tid, child_tid, tls)
    thread.stack = creator->call.arguments[1];
  }
  thread.number = turns_.add(time);
  thread.core = turns_.core(thread.number);
  thread.time = thread.started = turns_.time(thread.number);
  by_cpu_[vcpu] = made.get();
  threads_.push_back(std::move(made));
  if (current_)
    refresh_horizon();
  else
    rouse(hand_over());
}

void Engine::end_thread(unsigned vcpu) {
  GuestThread& thread = *by_cpu_[vcpu];
  if (is_child_) return;
  const std::lock_guard lock(mutex_);
  turns_.stop(thread.number, thread.time, Turns::State::kGone);
  thread.horizon = 0;
  if (thread.clear_address) {
    // The kernel clears the word and wakes for itself; whoever runs next waits for that.
    going_ = thread.clear_address;
    for (const ThreadNumber sleeper : queues_.take(thread.clear_address, UINT64_MAX, ~0u)) {
      threads_[sleeper]->wakes_late = true;
      turns_.wake(sleeper, thread.time + machine_.wake_cycles * kCycle);
    }
  }
  if (current_ == &thread) rouse(hand_over());
}

// Gives the turn to the next thread, which may have to be roused. The mutex is held, and the current thread has been
// stopped. nullptr: nobody can run.
GuestThread* Engine::hand_over() {
  ++switches_;
  if (GuestThread* const stopped = current_) latest_ = std::max(latest_, stopped->time);
  current_ = nullptr;
  const Turns::Choice choice = turns_.next();
  if (choice.thread == kNobody) {
    if (timer_ != kNever && turns_.state(0) == Turns::State::kAsleep) {  // the signal ends the main thread's sleep
      latest_ = std::max(latest_, timer_);
      expire_timer(*threads_[0]);
    }
    return nullptr;
  }
  turns_.run(choice);
  GuestThread& next = *threads_[choice.thread];
  if (choice.at_deadline) {
    next.timed_out = true;
    queues_.remove(next.number);
  }
  next.time = choice.time;
  current_ = &next;
  next.word.store(GuestThread::kGo, std::memory_order_release);
  return &next;
}

// Without the mutex where that can be, for the thread runs at once.
void Engine::rouse(GuestThread* thread) {
  if (thread) syscall(SYS_futex, &thread->word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// How far the current thread may go before it has to ask. The mutex is held.
void Engine::refresh_horizon() {
  GuestThread& current = *current_;
  if (current.word.load(std::memory_order_relaxed) == GuestThread::kGo)
    return;  // it has not taken its turn yet, and then asks
  const Ticks others = turns_.next().time;
  const Ticks quantum = current.time < current.close_until ? std::min(quantum_, kCloseQuantum * kCycle) : quantum_;
  current.exact.store(others, std::memory_order_relaxed);
  current.horizon.store(std::min(others == kNever ? kNever : others + quantum, timer_), std::memory_order_relaxed);
}

void Engine::ask(GuestThread& thread) {
  if (thread.tid.load(std::memory_order_relaxed) == 0) thread.tid = gettid();
  thread.passes = false;  // the block to whose end it was let go is over
  take_turn(thread, true);
}

// QEMU throws its translations away when the first thread is made, for which the new one has to leave translated code
// if it is there already. That it always is makes all runs alike.
void Engine::await_arrival(ThreadNumber number) {
  const GuestThread& thread = *threads_[number];
  while (!thread.has_arrived && !thread.in_kernel) sched_yield();  // bound: the kernel starts it
}

void Engine::take_turn(GuestThread& thread, bool in_code) {
  if (current_ == &thread && thread.word.load(std::memory_order_relaxed) != GuestThread::kGo) {
    std::unique_lock lock(mutex_);
    turns_.stop(thread.number, thread.time, Turns::State::kReady);
    thread.horizon.store(0, std::memory_order_relaxed);
    GuestThread* const next = hand_over();
    lock.unlock();
    if (next != &thread) rouse(next);
  }
  wait_for_turn(thread, in_code);
}

void Engine::wait_for_turn(GuestThread& thread, bool in_code) {
  thread.waits_in_code.store(in_code);
  thread.has_arrived.store(true);
  constexpr timespec kLong{3600, 0};  // with a time limit a signal ends the wait whatever its handler's flags are
  while (true) {                      // bound: until the turn comes
    const std::uint32_t word = thread.word.exchange(GuestThread::kWait, std::memory_order_acquire);
    if (word == GuestThread::kPass) {
      thread.passes = true;
      return;
    }
    if (word == GuestThread::kGo) break;
    if (syscall(SYS_futex, &thread.word, FUTEX_WAIT_PRIVATE, GuestThread::kWait, &kLong, nullptr, 0) != 0 &&
        errno == EINTR)
      interrupted(thread);
  }
  thread.waits_in_code.store(false);
  if (going_) {
    std::uint32_t word = 0;
    while (read_guest(going_, word) && word != 0) sched_yield();  // bound: the kernel clears it at the thread's end
    going_ = 0;
  }
  const std::lock_guard lock(mutex_);
  if (thread.time >= timer_) expire_timer(thread);
  refresh_horizon();
}

// Sleeps on a futex at `address`, or for a time alone if that is 0. True when the deadline came first.
bool Engine::sleep(GuestThread& thread, Ticks deadline, std::uint64_t address, std::uint32_t bits) {
  const Ticks from = thread.time;
  thread.timed_out = false;
  std::unique_lock lock(mutex_);
  if (address) queues_.add(address, thread.number, bits);
  turns_.stop(thread.number, thread.time, Turns::State::kAsleep, deadline);
  thread.horizon.store(0, std::memory_order_relaxed);
  GuestThread* const next = hand_over();
  lock.unlock();
  rouse(next);
  wait_for_turn(thread, false);
  thread.idle += thread.time - from;
  if (address) thread.counts[Count::kWaitingTicks] += thread.time - from;
  return thread.timed_out;
}

std::uint32_t Engine::wake(GuestThread& waker, std::uint64_t address, std::uint64_t most, std::uint32_t bits) {
  const std::lock_guard lock(mutex_);
  const std::vector<ThreadNumber> sleepers = queues_.take(address, most, bits);
  for (const ThreadNumber sleeper : sleepers) turns_.wake(sleeper, waker.time + machine_.wake_cycles * kCycle);
  if (!sleepers.empty()) refresh_horizon();
  return static_cast<std::uint32_t>(sleepers.size());
}

// A thread is ready that did not run: it comes when its time has come, at once if nobody runs. The mutex is held.
void Engine::welcome(ThreadNumber number, Ticks time) {
  turns_.wake(number, time);
  if (current_)
    refresh_horizon();
  else
    rouse(hand_over());
}

// A signal came while the thread waited: if it sleeps, it returns to the program, which handles it.
void Engine::interrupted(GuestThread& thread) {
  const std::lock_guard lock(mutex_);
  if (turns_.state(thread.number) != Turns::State::kAsleep) return;
  queues_.remove(thread.number);
  welcome(thread.number, now());
}

// Back from the kernel, where it was for so long that others took its turn.
void Engine::rejoin(GuestThread& thread) {
  const Ticks from = thread.time;
  {
    const std::lock_guard lock(mutex_);
    if (turns_.state(thread.number) != Turns::State::kOutside) return;
    welcome(thread.number, now());
  }
  wait_for_turn(thread, false);
  thread.idle += thread.time - from;
}

std::uint64_t Engine::nanoseconds(Ticks time) const {
  return static_cast<std::uint64_t>(static_cast<double>(time) / kCycle / machine_.hertz * 1e9);
}
Ticks Engine::ticks(std::uint64_t nanoseconds) const {
  return static_cast<Ticks>(static_cast<double>(nanoseconds) * 1e-9 * machine_.hertz * kCycle);
}

Ticks Engine::process_busy() const {
  Ticks busy = 0;
  for (const auto& thread : threads_) busy += thread->time - thread->started - thread->idle;
  return busy;
}

}  // namespace heapyard::simulator
