// SPDX-License-Identifier: Apache-2.0
// Which atomics and locks concurrent code is made of: a policy, so that the same code also runs under a test that
// explores its schedules (tests/native/heap/explorer.hpp).
#pragma once

#include <sys/single_threaded.h>

#include <atomic>
#include <cstdint>

#include "heap/os/asymmetric_fence.hpp"
#include "heap/os/futex.hpp"
#include "heap/os/lock.hpp"

namespace heapyard::core {

// What a policy must have; waiting and fences are for the gate alone.
template <class T>
concept ConcurrencyPolicy = requires {
  typename T::template Atomic<std::uint32_t>;
  typename T::Lock;
};
template <class T>
concept WaitingPolicy = ConcurrencyPolicy<T> && requires(const typename T::template Atomic<std::uint32_t>& word) {
  T::light_fence();
  T::heavy_fence();
  T::wait(word, std::uint32_t{}, 0u);
  T::wake(word);
};

// Atomic<T> offers what std::atomic<T> offers; Lock what os::Lock offers.
struct Concurrency {
  template <class T>
  using Atomic = std::atomic<T>;
  using Lock = os::Lock;
  // Whether the process has one thread, for now.
  static bool alone() { return __libc_single_threaded; }
  static void light_fence() { os::AsymmetricFence::light(); }
  static void heavy_fence() { os::AsymmetricFence::heavy(); }
  // Sleeps while the word has this value, `milliseconds` at most if not 0; may return at any time.
  static void wait(const Atomic<std::uint32_t>& word, std::uint32_t value, unsigned milliseconds) {
    os::wait_while(word, value, milliseconds);
  }
  static void wake(const Atomic<std::uint32_t>& word) { os::wake(word); }
};

}  // namespace heapyard::core
