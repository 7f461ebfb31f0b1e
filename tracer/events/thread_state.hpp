// What each thread of the traced program carries.
#pragma once

#include <cstdint>

#include "tracer/session/ring.hpp"

namespace heapyard::tracer {

inline constexpr std::size_t kKnownChains = 4096;

// Whether the thread is in the middle of a recording; of its own set-up, which may allocate and is nobody's memory.
enum class Busy : std::uint8_t { kNo, kRecording, kSettingUp };

// Zero in a thread that has recorded nothing: its first allocation goes the long way and draws a distance.
struct ThreadState {
  std::int64_t to_sample = 0;  // bytes until the next allocation is recorded; below zero throughout in exact mode
  Busy busy = Busy::kNo;
  bool gave_up = false;          // waited for room in the ring in vain; cleared once there is room
  std::uint32_t generation = 0;  // of the process and its modules, when the fields below were filled
  std::uint64_t random = 0;
  RingWriter ring;
  std::uintptr_t stack_begin = 0, stack_end = 0;
  std::uint64_t* known_chains = nullptr;  // hashes of chains the collector has been sent; kKnownChains of them
};

}  // namespace heapyard::tracer
