// SPDX-License-Identifier: Apache-2.0
// A bounded queue from one thread to one other, in order, without locks.
//
// Each end caches what it knows of the other's position, so that an uncontended operation touches one shared cache line
// only when that knowledge runs out (after Lamport 1977 and Lee et al., "FastForward"-style caching of indices).
// Threads: one pushes, one pops; both O(1) and wait-free. No heap.
#pragma once

#include <atomic>
#include <cstddef>

#include "arena.hpp"

namespace heapyard::kit {

template <class T>
class SpscRing {
 public:
  // `capacity`: a power of two.
  void prepare(Arena& arena, std::size_t capacity) {
    items_ = arena.take<T>(capacity);
    mask_ = capacity - 1;
  }

  bool push(const T& item) {
    const std::size_t at = pushed_.load(std::memory_order_relaxed);
    if (at - popped_seen_ > mask_) {
      popped_seen_ = popped_.load(std::memory_order_acquire);
      if (at - popped_seen_ > mask_) return false;
    }
    items_[at & mask_] = item;
    pushed_.store(at + 1, std::memory_order_release);
    return true;
  }

  bool pop(T& item) {
    const std::size_t at = popped_.load(std::memory_order_relaxed);
    if (at == pushed_seen_) {
      pushed_seen_ = pushed_.load(std::memory_order_acquire);
      if (at == pushed_seen_) return false;
    }
    item = items_[at & mask_];
    popped_.store(at + 1, std::memory_order_release);
    return true;
  }

 private:
  T* items_ = nullptr;
  std::size_t mask_ = 0;
  // INVARIANT: popped_ <= pushed_ <= popped_ + capacity. What each end writes lies on lines of its own.
  alignas(2 * kCacheLine) std::atomic<std::size_t> pushed_{0};
  std::size_t popped_seen_ = 0;
  alignas(2 * kCacheLine) std::atomic<std::size_t> popped_{0};
  std::size_t pushed_seen_ = 0;
};

}  // namespace heapyard::kit
