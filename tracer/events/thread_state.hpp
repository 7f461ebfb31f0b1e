// SPDX-License-Identifier: Apache-2.0
// What each thread of the traced program carries.
#pragma once

#include <cstdint>

#include "tracer/events/chain_walker.hpp"
#include "tracer/events/own_stack.hpp"
#include "tracer/events/told_chains.hpp"
#include "tracer/session/owner.hpp"
#include "tracer/session/ring.hpp"

namespace heapyard::tracer {

// What a thread remembers of call chains; in a mapping of its own, all zero at first.
struct ChainMemory {
  ToldChains told;
  ChainWalker walker;
  ChainMemo memo;  // of chains that the collector knows, where every event is recorded
  struct Pended {
    Kind kind;
    Owned owned;
    std::uint64_t stamp;
  };
  static constexpr unsigned kPended = 16;
  Pended pended[kPended];  // frees by signal handlers in the middle of a recording, which are recorded after it

  std::uint64_t script[2 * kFrames];  // words of a script's frames, and 0 after each evaluation
  std::uint64_t whole[kFrames];       // a chain with them

  // As at first, for another thread.
  void forget() {
    told.forget();
    walker.forget();
    memo.forget();
  }
};

// Whether the thread is in the middle of a recording; of its own set-up, which may allocate and is nobody's memory.
enum class Busy : std::uint8_t { kNo, kRecording, kSettingUp };

// What a thread waited in vain for: one look of the collector into its ring; any sign of life.
enum class GaveUp : std::uint8_t { kNo, kABurst, kALongWait };

// Zero in a thread that has recorded nothing: its first allocation goes the long way and draws a distance.
struct ThreadState {
  std::uint64_t to_sample = 0;      // an allocation of at least so many bytes is recorded; 0 throughout in exact mode
  std::uint32_t log2_interval = 0;  // at which to_sample was drawn
  Busy busy = Busy::kNo;
  std::uint8_t pended = 0;       // entries in use of chains->pended
  GaveUp gave_up = GaveUp::kNo;  // cleared once there is room
  std::uint32_t generation = 0;  // of the process and its modules, when the fields below were filled
  std::uint32_t session = 0;     // that the ring is of
  std::uint64_t random = 0;
  std::uint32_t number = 0;                  // among the threads that ever had a ring
  std::uint64_t activity = Activity::kNone;  // of the session, as this thread left it; of then is what follows
  Mode mode = Mode::kOff;
  std::uint64_t since = 0;  // stamp of that time, counted from the session's; 0: others record too
  Owned moved;              // by a realloc that may yet fail
  bool for_arena = false;   // what is mapped now is for Python's objects
  std::uintptr_t last = 0;  // block that this thread allocated, if it has called nothing since
  RingWriter ring;
  OwnStack stack;
  ChainMemory* chains = nullptr;
};
extern thread_local constinit ThreadState this_thread __attribute__((tls_model("initial-exec")));

}  // namespace heapyard::tracer
