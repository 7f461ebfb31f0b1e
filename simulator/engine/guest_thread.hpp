// SPDX-License-Identifier: Apache-2.0
// One thread of the simulated program.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "simulator/model/counts.hpp"
#include "simulator/model/load_window.hpp"
#include "simulator/model/store_buffer.hpp"
#include "simulator/model/turns.hpp"

namespace heapyard::simulator {

// Program memory that the engine changed for the length of one system call.
struct Disguise {
  std::uint64_t address = 0;  // 0: none
  std::uint32_t bytes = 0;
  std::array<std::uint8_t, 32> was{};
};

struct SystemCall {
  std::int64_t number = -1;
  std::array<std::uint64_t, 6> arguments{};
};

struct alignas(128) GuestThread {
  // What each access needs comes first.
  Ticks time = 0;
  std::atomic<Ticks> horizon = 0;  // from here on it has to ask for its turn; 0: it has none
  std::atomic<Ticks> exact = 0;    // an atomic may not be later than this
  CoreNumber core = 0;
  ThreadNumber number = 0;
  Counts counts;
  StoreBuffer stores;
  LoadWindow loads;
  std::uint64_t met = 0;  // counts.met_others() when it last met another core
  Ticks close_until = 0;  // because of that

  // How many of the next atomics of an instruction are expected to meet other cores. Instructions share the entries.
  std::uint8_t& contention(std::uint64_t code) { return contention_[(code ^ code >> 8) % contention_.size()]; }

  Ticks started = 0, idle = 0;  // idle: asleep or in the kernel for long
  SystemCall call;
  Disguise disguise;
  std::uint64_t clear_address = 0;  // the kernel zeroes it when the thread has gone, and wakes who waits there
  std::uint64_t stack = 0;          // an address in it; 0: the process's own
  bool wakes_late = false;          // it waits for a thread to go: the kernel itself lets it on
  bool timed_out = false;
  bool passes = false;  // runs to the end of its block without the turn

  enum Word : std::uint32_t { kWait, kGo, kPass };
  std::atomic<std::uint32_t> word = kWait;
  std::atomic<pid_t> tid = 0;
  std::atomic<bool> has_arrived = false;    // ever; it may have gone since, when its maker was held by the kernel
  std::atomic<bool> waits_in_code = false;  // held inside of a block of translated code
  std::atomic<bool> in_kernel = false;      // in a system call
  std::atomic<bool> empties_code = false;   // in one for which all others have to leave translated code

 private:
  std::array<std::uint8_t, 256> contention_{};
};

}  // namespace heapyard::simulator
