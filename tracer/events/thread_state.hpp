// What each thread of the traced program carries.
#pragma once

#include <cstdint>

#include "tracer/events/chain_walker.hpp"
#include "tracer/events/own_stack.hpp"
#include "tracer/session/ring.hpp"

namespace heapyard::tracer {

// What a thread remembers of call chains; in a mapping of its own, all zero at first.
struct ChainMemory {
  static constexpr std::size_t kKnown = 1 << 15;
  std::uint64_t known[kKnown];  // hashes of chains the collector has been sent, by their low bits
  ChainWalker walker;
  ChainMemo memo;  // of chains that the collector knows, where every event is recorded
};

// Whether the thread is in the middle of a recording; of its own set-up, which may allocate and is nobody's memory.
enum class Busy : std::uint8_t { kNo, kRecording, kSettingUp };

// Zero in a thread that has recorded nothing: its first allocation goes the long way and draws a distance.
struct ThreadState {
  std::uint64_t to_sample = 0;      // an allocation of at least so many bytes is recorded; 0 throughout in exact mode
  std::uint32_t log2_interval = 0;  // at which to_sample was drawn
  Busy busy = Busy::kNo;
  bool gave_up = false;          // waited for room in the ring in vain; cleared once there is room
  std::uint32_t generation = 0;  // of the process and its modules, when the fields below were filled
  std::uint32_t session = 0;     // that the ring is of
  std::uint64_t random = 0;
  RingWriter ring;
  OwnStack stack;
  ChainMemory* chains = nullptr;
};

}  // namespace heapyard::tracer
