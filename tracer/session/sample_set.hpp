// Which blocks are sampled: a set of addresses that a free can ask without a lock.
//
// Idea: two buckets of one cache line per address (cuckoo hashing's choice of two, Azar et al. 1999), no displacement:
// nothing moves, so a look-up is two lines at most and an erase one store. A filter by page before it answers nearly
// every question with one load. Cost: O(1). Threads: an address is inserted and erased by whoever owns the block, so
// two threads never meet at one; slots are taken by compare-and-swap. Full buckets refuse: the caller counts it.
#pragma once

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class SampleSet {
 public:
  SampleSet() = default;
  explicit SampleSet(const Session& session)
      : filter_(session.filter()), buckets_(session.set()), mask_(session.header().buckets - 1) {}

  // Whether `address` may be in the set: false is certain.
  bool maybe(std::uintptr_t address) const {
    return filter_[filter_place(address)].load(std::memory_order_relaxed) != 0;
  }

  bool insert(std::uintptr_t address) {
    const std::uint64_t hash = mix(address);
    for (const std::uint64_t choice : {hash, hash >> 32}) {
      for (auto& slot : buckets_[choice & mask_].address) {
        std::uint64_t empty = 0;
        if (slot.load(std::memory_order_relaxed) == 0 &&
            slot.compare_exchange_strong(empty, address, std::memory_order_relaxed)) {
          filter_[filter_place(address)].fetch_add(1, std::memory_order_relaxed);
          return true;
        }
      }
    }
    return false;
  }

  // Whether `address` was in the set.
  bool erase(std::uintptr_t address) {
    const std::uint64_t hash = mix(address);
    for (const std::uint64_t choice : {hash, hash >> 32}) {
      for (auto& slot : buckets_[choice & mask_].address) {
        std::uint64_t expected = address;
        if (slot.load(std::memory_order_relaxed) == address &&
            slot.compare_exchange_strong(expected, 0, std::memory_order_relaxed)) {
          filter_[filter_place(address)].fetch_sub(1, std::memory_order_relaxed);
          return true;
        }
      }
    }
    return false;
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {  // Stafford's variant 13 of MurmurHash3's finaliser
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  std::atomic<std::uint16_t>* filter_ = nullptr;
  Bucket* buckets_ = nullptr;
  std::uint64_t mask_ = 0;
};

}  // namespace heapyard::tracer
