// SPDX-License-Identifier: Apache-2.0
// Runs the threads of a program one at a time, each until its simulated time is ahead of the others', and charges what
// they do to the simulated machine.
//
// A thread gives its turn away where it asks for it: at the beginning of a block of translated code, before an atomic
// instruction, and in a system call. Between those only the thread that has the turn touches the engine, the model and
// the program, so that the same seed gives the same run.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "guest_memory.hpp"
#include "guest_thread.hpp"
#include "simulator/model/memory.hpp"
#include "sleeping_queues.hpp"

namespace heapyard::simulator {

struct Options {
  std::string out;
  const Machine* machine = nullptr;
  std::uint32_t cores = 0;
  std::uint64_t seed = 1;
  std::uint32_t quantum_cycles = 1000;
  bool spread = false;
};

inline constexpr unsigned kMostCpus = 4096;  // of QEMU at the same time

// A thread that has met another core at a line runs close to the others for a while: one that waits for a word must not
// be ahead when the word changes. 50 cycles are less than any transfer takes.
inline constexpr Ticks kCloseQuantum = 50, kCloseCycles = 5000;

class Engine {
 public:
  explicit Engine(const Options& options);

  // A virtual processor of QEMU's begins or ends: a thread of the program, by `vcpu`.
  void begin_thread(unsigned vcpu);
  void end_thread(unsigned vcpu);

  // `instructions` of a block are about to run.
  void block(unsigned vcpu, std::uint64_t instructions) {
    GuestThread& thread = *by_cpu_[vcpu];
    thread.time += instructions * instruction_ticks_;
    const std::uint64_t executed = thread.counts[Count::kInstructions] += instructions;
    if (!thread.loads.is_empty()) thread.time = thread.loads.reach(executed, thread.time);
    if (thread.time >= thread.horizon.load(std::memory_order_relaxed)) [[unlikely]]
      ask(thread);
  }
  // An atomic that lately met other cores comes in the exact order of time; one whose line has been its core's own for
  // a while waits for the block's end like any other access.
  void before_atomic(unsigned vcpu, std::uint64_t code) {
    GuestThread& thread = *by_cpu_[vcpu];
    if (thread.time > thread.exact.load(std::memory_order_relaxed) && thread.contention(code) > 0 && !thread.passes)
        [[unlikely]]
      ask(thread);
  }
  void access(unsigned vcpu, std::uint64_t address, std::uint32_t bytes, Kind kind, std::uint64_t code) {
    GuestThread& thread = *by_cpu_[vcpu];
    if (!thread.loads.is_empty()) thread.time = thread.loads.ready(address, thread.time);
    if (kind == Kind::kAtomic) {
      thread.time = thread.loads.drain(thread.stores.drain(thread.time));
    } else if (thread.stores.holds(address / kLineBytes, thread.time)) [[unlikely]] {
      memory_.forward({thread.core, thread.number, address, bytes, kind, code, thread.time / kCycle}, thread.counts);
      if (kind == Kind::kStore) buffer(thread, address, 0);
      return;
    }
    const std::uint64_t faults = thread.counts[Count::kPageFaults];
    const Access access{thread.core, thread.number, address, bytes, kind, code, thread.time / kCycle};
    const Ticks ticks = memory_.access(access, thread.counts) * kCycle;
    if (ticks == 0 && (kind != Kind::kStore || thread.stores.is_empty(thread.time))) return;
    const bool met_others = notice_others(thread);
    if (thread.counts[Count::kPageFaults] != faults || kind == Kind::kAtomic)
      thread.time += ticks;
    else if (kind == Kind::kStore)
      buffer(thread, address, ticks);
    else if (met_others)
      thread.time += ticks;  // what others wrote mostly decides what comes next
    else
      wait_beside(thread, address, bytes, ticks);
  }
  void atomic(unsigned vcpu, std::uint64_t address, std::uint32_t bytes, std::uint64_t code) {
    GuestThread& thread = *by_cpu_[vcpu];
    const std::uint64_t before = thread.counts.met_others();
    access(vcpu, address, bytes, Kind::kAtomic, code);
    std::uint8_t& contention = thread.contention(code);
    if (thread.counts.met_others() != before)
      contention = 16;
    else if (contention > 0)
      --contention;
  }
  void before_system_call(unsigned vcpu, const SystemCall& call);
  void after_system_call(unsigned vcpu, std::int64_t number, std::int64_t result);

  // Writes the record; nothing if this is a child of the process that was simulated.
  void finish();

 private:
  void buffer(GuestThread& thread, std::uint64_t address, Ticks ticks) {
    thread.time = thread.stores.put(address / kLineBytes, thread.time, thread.time + ticks, machine_.store_buffer);
  }
  void wait_beside(GuestThread& thread, std::uint64_t address, std::uint32_t bytes, Ticks ticks) {
    std::uint64_t value = 0;  // no pointer
    if (bytes == sizeof value) std::memcpy(&value, reinterpret_cast<const void*>(host_address(address)), sizeof value);
    const std::uint64_t limit = thread.counts[Count::kInstructions] + machine_.reorder_buffer;
    thread.time = thread.loads.put(value, thread.time + ticks, limit, thread.time);
  }
  // After an access: did it meet another core?
  bool notice_others(GuestThread& thread) {
    const std::uint64_t met = thread.counts.met_others();
    if (met == thread.met) return false;
    thread.met = met;
    thread.close_until = thread.time + kCloseCycles * kCycle;
    const Ticks exact = thread.exact.load(std::memory_order_relaxed);
    if (exact == kNever) return true;
    const Ticks horizon = thread.horizon.load(std::memory_order_relaxed);
    thread.horizon.store(std::min(horizon, exact + kCloseQuantum * kCycle), std::memory_order_relaxed);
    return true;
  }

  // Turns. The mutex guards turns_, queues_ and who is current.
  void ask(GuestThread& thread);
  GuestThread* hand_over();
  static void rouse(GuestThread* thread);
  void welcome(ThreadNumber number, Ticks time);
  void refresh_horizon();
  void wait_for_turn(GuestThread& thread, bool in_code);
  void take_turn(GuestThread& thread, bool in_code);
  bool sleep(GuestThread& thread, Ticks deadline, std::uint64_t address, std::uint32_t bits);
  std::uint32_t wake(GuestThread& waker, std::uint64_t address, std::uint64_t most, std::uint32_t bits);
  void interrupted(GuestThread& thread);
  void rejoin(GuestThread& thread);
  void await_arrival(ThreadNumber number);

  // For threads that the kernel or QEMU holds while they have the turn.
  void watch();
  const GuestThread* let_one_go();

  // System calls.
  void futex(GuestThread& thread);
  void futex_wait(GuestThread& thread, bool relative, std::uint32_t bits);
  void nap(GuestThread& thread);
  void disguise(GuestThread& thread, std::uint64_t address, const void* as, std::uint32_t bytes);
  void undisguise(GuestThread& thread);
  void tell_time(GuestThread& thread);
  void tell_cpus(GuestThread& thread, std::int64_t result);
  void give_random(GuestThread& thread, std::int64_t result);
  void set_timer(GuestThread& thread);
  void expire_timer(GuestThread& thread);
  void mark(bool end, GuestThread& thread);
  void fork_returned(GuestThread& thread);

  std::uint64_t nanoseconds(Ticks time) const;
  Ticks ticks(std::uint64_t nanoseconds) const;
  Ticks process_busy() const;
  Ticks now() const {
    const GuestThread* const current = current_;
    return current ? current->time : latest_;
  }

  friend class Recorder;

  const Options options_;
  const Machine& machine_;
  const Ticks instruction_ticks_, quantum_;
  const pid_t process_;
  const std::uint64_t real_start_;
  Memory memory_;
  std::array<GuestThread*, kMostCpus> by_cpu_{};

  std::mutex mutex_;
  Turns turns_;
  SleepingQueues queues_;
  std::vector<std::unique_ptr<GuestThread>> threads_;
  std::atomic<GuestThread*> current_ = nullptr;
  Ticks latest_ = 0;  // when the last turn ended
  std::atomic<std::uint64_t> switches_ = 0;
  std::uint64_t going_ = 0;  // the clear_address of a thread that goes, until the kernel has cleared it
  Ticks timer_ = kNever, timer_interval_ = 0;  // ITIMER_REAL
  bool is_child_ = false;                      // a fork's: not simulated
  Random random_;

  // What the record tells besides.
  std::uint64_t let_go_ = 0, outside_ = 0, forks_ = 0;
  std::string replaced_by_;
  Ticks mark_begin_ = kNever, mark_end_ = kNever;
  Counts at_begin_, measured_;
  std::uint64_t heap_low_ = 0, heap_high_ = 0;  // brk
  std::uint64_t reserved_ = 0;                  // bytes of large mappings
};

}  // namespace heapyard::simulator
