// SPDX-License-Identifier: Apache-2.0
// Places where blocks lie for a while, so that nobody can tell which comes next.
//
// Idea: who brings a block to a place chosen at random takes the one that lies there. Before the heap's free it delays
// reuse and shuffles its order; behind the heap's malloc it shuffles which of several addresses a request gets. The
// same block never comes out at once, unless the place was empty. Cost: O(1), one atomic exchange. Threads: any,
// without a lock. Fork: the child has what lies here.
#pragma once

#include <sys/auxv.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heapyard {

// A generator of one thread (Marsaglia, "Xorshift RNGs", 2003), seeded by what the kernel gives each program.
class Dice {
 public:
  static std::uint32_t roll() {
    std::uint64_t x = state_;
    if (x == 0) [[unlikely]]
      x = seed();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    state_ = x;
    return static_cast<std::uint32_t>(x >> 32);
  }

 private:
  [[gnu::noinline, gnu::cold]] static std::uint64_t seed() {
    std::uint64_t random = 0;
    if (const auto* given = reinterpret_cast<const void*>(getauxval(AT_RANDOM)))
      std::memcpy(&random, given, sizeof random);
    const std::uint64_t mixed = random ^ reinterpret_cast<std::uintptr_t>(&state_) * 0x9e3779b97f4a7c15u;
    return mixed == 0 ? 1 : mixed;
  }
  static inline constinit thread_local std::uint64_t state_ = 0;
};

template <unsigned Places>
class ShuffledSlots {
 public:
  static_assert((Places & (Places - 1)) == 0);
  constexpr ShuffledSlots() = default;

  // The block that lay where this one does now; null: none did.
  void* exchange(void* block) { return slots_[Dice::roll() % Places].exchange(block, std::memory_order_acq_rel); }

  // Takes all out.
  template <class Work>
  void drain(Work work) {
    for (std::atomic<void*>& slot : slots_) {
      if (void* block = slot.exchange(nullptr, std::memory_order_acq_rel)) work(block);
    }
  }
  template <class Work>
  void for_each(Work work) const {
    for (const std::atomic<void*>& slot : slots_) {
      if (const void* block = slot.load(std::memory_order_relaxed)) work(block);
    }
  }

 private:
  std::atomic<void*> slots_[Places] = {};
};

}  // namespace heapyard
