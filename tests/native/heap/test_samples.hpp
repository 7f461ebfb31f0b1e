// SPDX-License-Identifier: Apache-2.0
// A listener to a heap's samples that keeps account of them.
#pragma once

#include <map>
#include <mutex>

#include "heap/tracing/sample_events.hpp"

namespace heapyard::test {

struct Sample {
  std::size_t bytes, counted;  // counted: 0 for a block of no class
  std::uint32_t log2_interval;
};

// What was told, under a lock: heaps under test are called from many threads, and this one allocates elsewhere.
struct Listener {
  std::mutex mutex;
  std::map<void*, Sample> live;
  std::uint64_t random = 1, sampled = 0, returned = 0;
  bool twice = false;              // an address was told that lives already
  std::uint64_t most_passes = 20;  // a draw is less
};

inline Listener& listener() {
  static auto* const instance = new Listener;  // threads of a test may end after it
  return *instance;
}

inline constexpr std::uint32_t kTestInterval = 11;

inline std::uint64_t next_passes() {
  std::uint64_t& random = listener().random;
  random = random * 6364136223846793005u + 1442695040888963407u;
  return (random >> 33) % listener().most_passes;
}

inline constexpr tracing::SampleEvents kTestEvents{
    [](std::size_t) noexcept -> tracing::SampleTurn {
      const std::lock_guard locked(listener().mutex);
      return {next_passes(), kTestInterval};
    },
    [](void* block, std::size_t bytes, std::size_t counted, std::uint32_t log2_interval) noexcept {
      const std::lock_guard locked(listener().mutex);
      ++listener().sampled;
      listener().twice |= !listener().live.emplace(block, Sample{bytes, counted, log2_interval}).second;
    },
    [](void* block, std::size_t bytes) noexcept {
      const std::lock_guard locked(listener().mutex);
      if (next_passes() == 0)
        listener().twice |= !listener().live.emplace(block, Sample{bytes, 0, kTestInterval}).second;
    },
    [](void* block) noexcept {
      const std::lock_guard locked(listener().mutex);
      const bool known = listener().live.erase(block) != 0;
      listener().returned += known;
      return known;
    },
};

// The same without a lock that a signal handler or a forked child could find held: every other allocation is a sample.
inline constexpr tracing::SampleEvents kBareEvents{
    [](std::size_t) noexcept -> tracing::SampleTurn { return {1, kTestInterval}; },
    [](void*, std::size_t, std::size_t, std::uint32_t) noexcept {},
    [](void*, std::size_t) noexcept {},
    [](void*) noexcept { return true; },
};

inline void listen(const tracing::SampleEvents& events = kBareEvents) {
  tracing::sample_events.store(&events, std::memory_order_relaxed);
}
inline void listen_no_more() { tracing::sample_events.store(nullptr, std::memory_order_relaxed); }

}  // namespace heapyard::test
