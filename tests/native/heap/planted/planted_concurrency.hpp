// SPDX-License-Identifier: Apache-2.0
// core::Concurrency with one fault (fault.hpp), for heaps whose layers take their atomics and locks from a policy.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "fault.hpp"
#include "heap/core/concurrency.hpp"
#include "heap/layers/spans/list_span.hpp"

namespace heapyard::test {

struct PlantedConcurrency {
  template <class T>
  class Atomic {
   public:
    constexpr Atomic() = default;
    constexpr Atomic(T value) : value_(value) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load(std::memory_order order = std::memory_order_seq_cst) const { return value_.load(order); }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) { value_.store(kept(value), order); }
    T operator=(T value) {
      store(value);
      return value;
    }
    operator T() const { return load(); }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T) { return value; });
    }
    T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T old) { return static_cast<T>(old + more); });
    }
    T fetch_sub(T less, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T old) { return static_cast<T>(old - less); });
    }
    T fetch_or(T bits, std::memory_order = std::memory_order_seq_cst) {
      return change([&](T old) { return static_cast<T>(old | bits); });
    }
    bool compare_exchange_strong(T& seen, T value, std::memory_order = std::memory_order_seq_cst,
                                 std::memory_order = std::memory_order_seq_cst) {
      if (planted != Fault::kSplitUpdates) return value_.compare_exchange_strong(seen, kept(value));
      const T now = value_.load();
      if (now != seen) {
        seen = now;
        return false;
      }
      value_.store(value);
      return true;
    }
    bool compare_exchange_weak(T& seen, T value, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
      return compare_exchange_strong(seen, value);
    }

   private:
    static T kept(T value) {
      if constexpr (std::is_same_v<T, std::uint64_t>) {
        if (planted == Fault::kForgetsTags) return value & ((std::uint64_t{1} << 48) - 1);
      }
      if constexpr (std::is_same_v<T, std::uint32_t>) {
        if (planted == Fault::kForgetsEpochs && value > ListSpan::kCounter) return value & ~ListSpan::kCounter;
      }
      return value;
    }
    template <class Change>
    T change(Change change) {
      T old = value_.load();
      if (planted == Fault::kSplitUpdates) {
        value_.store(change(old));
        return old;
      }
      while (!value_.compare_exchange_weak(old, kept(change(old)))) {
      }
      return old;
    }

    std::atomic<T> value_{};
  };

  class Lock {
   public:
    void lock() {
      if (planted != Fault::kNoLocks) lock_.lock();
    }
    void unlock() {
      if (planted != Fault::kNoLocks) lock_.unlock();
    }

   private:
    os::Lock lock_;
  };

  static bool alone() { return core::Concurrency::alone(); }
};

}  // namespace heapyard::test
