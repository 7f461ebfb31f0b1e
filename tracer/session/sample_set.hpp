// SPDX-License-Identifier: Apache-2.0
// Which blocks are sampled: a set of addresses that a free can ask without a lock.
//
// Idea: two buckets of one cache line per address, the emptier one of them (Azar et al. 1999), no displacement: nothing
// moves. When both are full, twice as many buckets are used from then on, so that few samples touch little
// memory; who is looked for may be where he was put before, so a look-up is two lines per doubling. A filter by place
// before it (sample_filter.hpp) answers nearly every question with one load; a second one by address, in the same
// table, those of blocks that lie beside a sample and come and go all the time. Cost: O(1). Threads: an address is
// inserted and erased by whoever owns the block, so two threads never meet at one; slots are taken by compare-and-swap.
// Full buckets refuse: the caller counts it. The collector knows of a block's end later than its owner: it erases by a
// tag of the allocation's stamp as well, so that it does not take out whoever has got the same address since.
#pragma once

#include <utility>

#include "tracer/session/layout.hpp"
#include "tracer/session/ring.hpp"

namespace heapyard::tracer {

class SampleSet {
 public:
  SampleSet() = default;
  explicit SampleSet(const Session& session)
      : filter_(session.filter()),
        buckets_(session.set()),
        used_(&session.header().buckets_used),
        most_(session.header().buckets) {}

  // Whether `address` may be in the set: false is certain.
  bool maybe(std::uintptr_t address) const {
    return filter_[count_place(address)].load(std::memory_order_relaxed) != 0 &&
           filter_[second_place(address, mix(address))].load(std::memory_order_relaxed) != 0;
  }

  // `allocated`: the stamp of its allocation.
  [[gnu::noinline]] bool insert(std::uintptr_t address, std::uint64_t allocated) {
    const std::uint64_t hash = mix(address);
    for (;;) {
      std::uint32_t used = in_use();
      Bucket* one = choice(hash, used, 0);
      Bucket* other = choice(hash, used, 1);
      if (room_in(*one) < room_in(*other)) std::swap(one, other);
      if (put(*one, address, allocated) || put(*other, address, allocated)) return true;
      if (used == most_)
        return put(*choice(hash, used, 2), address, allocated) || put(*choice(hash, used, 3), address, allocated);
      used_->compare_exchange_strong(used, used * 2, std::memory_order_relaxed);
    }
  }

  // Whether `address` was in the set. By its owner.
  bool erase(std::uintptr_t address) {
    return erase_if(address, [&](std::uint64_t word) { return (word & kAddressBits) == address; });
  }
  // The same by someone else: only what was allocated then.
  bool erase(std::uintptr_t address, std::uint64_t allocated) {
    return erase_if(address, [&](std::uint64_t word) { return word == tagged(address, allocated); });
  }

 private:
  template <class Matches>
  bool erase_if(std::uintptr_t address, Matches matches) {
    const std::uint64_t hash = mix(address);
    for (std::uint32_t used = in_use();; used /= 2) {
      for (unsigned number = 0; number < (used == most_ ? 4 : 2); ++number) {
        for (auto& slot : choice(hash, used, number)->address) {
          std::uint64_t word = slot.load(std::memory_order_relaxed);
          if (matches(word) && slot.compare_exchange_strong(word, 0, std::memory_order_relaxed)) {
            change(filter_[count_place(address)], -1);
            change(filter_[second_place(address, hash)], -1);
            return true;
          }
        }
      }
      if (used <= kFirstBuckets) return false;
    }
  }

  // By address, on the page of the first: so that few samples touch little memory.
  static std::size_t second_place(std::uintptr_t address, std::uint64_t hash) {
    return (count_place(address) & ~(kPage - 1)) | (hash >> 52 & (kPage - 1));
  }

  // Never more than there are: the program may have written over it.
  std::uint32_t in_use() const {
    const std::uint32_t used = used_->load(std::memory_order_relaxed);
    return used - 1 < most_ ? used : most_;
  }
  // Two while it can grow, and two more once it cannot.
  Bucket* choice(std::uint64_t hash, std::uint32_t used, unsigned number) const {
    return &buckets_[hash >> 16 * number & (used - 1)];
  }
  bool put(Bucket& bucket, std::uintptr_t address, std::uint64_t allocated) {
    for (auto& slot : bucket.address) {
      std::uint64_t empty = 0;
      if (slot.load(std::memory_order_relaxed) == 0 &&
          slot.compare_exchange_strong(empty, tagged(address, allocated), std::memory_order_relaxed)) {
        change(filter_[count_place(address)], 1);
        change(filter_[second_place(address, mix(address))], 1);
        return true;
      }
    }
    return false;
  }
  static int room_in(const Bucket& bucket) {
    int empty = 0;
    for (const auto& slot : bucket.address) empty += slot.load(std::memory_order_relaxed) == 0;
    return empty;
  }
  static std::uint64_t tagged(std::uintptr_t address, std::uint64_t allocated) {
    return (address & kAddressBits) | (allocated * 0x9e3779b97f4a7c15u & ~kAddressBits);
  }
  static std::uint64_t mix(std::uint64_t x) {  // Stafford's variant 13 of MurmurHash3's finaliser
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  SampleCount* filter_ = nullptr;
  Bucket* buckets_ = nullptr;
  std::atomic<std::uint32_t>* used_ = nullptr;
  std::uint32_t most_ = 0;
};

}  // namespace heapyard::tracer
