// SPDX-License-Identifier: Apache-2.0
// A lock of four bytes that spins briefly and then sleeps in the kernel.
//
// Idea: three states as in Drepper, "Futexes Are Tricky" (2011), section 5: free, held, held with sleepers. While the
// process has one thread it uses no atomic instruction. Cost: lock and unlock O(1) uncontended; the spin is bounded,
// then one system call per sleep. Fork: no thread is inside the heap then (layers/gate.hpp), so the lock is free. The
// lock is not recursive; a thread that might meet its own lock is kept away from it (layers/frontend/entry.hpp).
#pragma once

#include <sys/single_threaded.h>

#include <atomic>
#include <cstdint>

#include "heap/os/futex.hpp"
#include "heap/os/pages.hpp"

namespace heapyard::os {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

class Lock {
 public:
  constexpr Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() {
    // A thread that holds the lock starts no other, so the answer is the same at unlock.
    if (__libc_single_threaded) {
      state_.store(kHeld, std::memory_order_relaxed);
      return;
    }
    std::uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) [[unlikely]]
      wait();
  }

  // Whether the lock was free, and is held now.
  bool try_lock() {
    if (__libc_single_threaded) {
      state_.store(kHeld, std::memory_order_relaxed);
      return true;
    }
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }

  void unlock() {
    if (__libc_single_threaded) {
      state_.store(kFree, std::memory_order_relaxed);
      return;
    }
    if (state_.exchange(kFree, std::memory_order_release) == kSleepers) [[unlikely]]
      wake();
  }

  // In the child of a fork, which no other thread survives.
  void reset() { state_.store(kFree, std::memory_order_relaxed); }

 private:
  enum : std::uint32_t { kFree, kHeld, kSleepers };
  static constexpr int kSpins = 100;  // about a lock transfer between processors

  [[gnu::noinline, gnu::cold]] void wait() {
    for (int spin = 0; spin < kSpins; ++spin) {
      std::uint32_t expected = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire)) {
        return;
      }
      pause();
    }
    while (state_.exchange(kSleepers, std::memory_order_acquire) != kFree) wait_while(state_, kSleepers);
  }

  [[gnu::noinline, gnu::cold]] void wake() { os::wake(state_, 1); }

  std::atomic<std::uint32_t> state_{kFree};
};

struct LockedAlready {};
inline constexpr LockedAlready kLockedAlready;

// Holds a lock while it is in scope.
template <class LockT = Lock>
class Locked {
 public:
  explicit Locked(LockT& lock) : lock_(lock) { lock_.lock(); }
  Locked(LockT& lock, LockedAlready) : lock_(lock) {}
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  LockT& lock_;
};

}  // namespace heapyard::os
