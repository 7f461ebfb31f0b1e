// SPDX-License-Identifier: Apache-2.0
// A slab: objects of one size whose only allocator state is a bitset of the free ones and one word.
//
// Idea: elfmalloc's slabs. The owner of a slab takes whole words of the bitset. Any thread frees by setting a bit and
// counting it. The state word counts free objects, and says whether the slab is CLAIMED (by one front end, which
// allocates from it) or LISTED (offered to all). The published code counts first and sets the bit afterwards. So a slab
// can count as empty and be made anew while a bit is still to come. Ours sets the bit first and lets the count lag. It
// changes the state by a compare-and-swap of the whole word, whose epoch makes a stale value fail.
// Cost: O(1); only init is O(words of the bitset). Threads: any may free; the rest is for the claiming thread. Atomics:
// core/concurrency.hpp.
//
// INVARIANT: count <= bits set, equal when nobody is inside; unclaimed and count = objects: nothing is still to come.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/core/concurrency.hpp"
#include "heap/policy/slab_classes.hpp"

namespace heapyard {

template <core::ConcurrencyPolicy Policy = core::Concurrency>
struct alignas(64) BitsetSlabOf {
  using Concurrency = Policy;
  template <class T>
  using Atomic = typename Policy::template Atomic<T>;

  static constexpr std::uint64_t kClaimed = std::uint64_t{1} << 63, kListed = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kEpoch = std::uint64_t{1} << 32;  // one step; 30 bits
  // The count lies this much above zero: taken bits may be counted after they were taken.
  static constexpr std::uint64_t kZero = std::uint64_t{1} << 24;

  bool big_page;  // of the page: never changes
  Atomic<std::uint8_t> size_class;
  // The pool's: bytes that are mapped, the page made before this one, and a link of its stacks.
  std::uint32_t there;
  BitsetSlabOf* before;
  Atomic<BitsetSlabOf*> link;
  Atomic<std::uint64_t> state;
  // In a list of slabs offered to all, under its lock.
  BitsetSlabOf* next;
  BitsetSlabOf* prev;

  static std::uint32_t count_in(std::uint64_t state) {
    const auto count = static_cast<std::int32_t>((state & (kEpoch - 1)) - kZero);
    return count < 0 ? 0 : static_cast<std::uint32_t>(count);
  }

  unsigned in_class() const { return size_class.load(std::memory_order_relaxed); }
  const policy::SlabShape& shape() const { return policy::SlabClasses::kShapes[in_class()]; }
  Atomic<std::uint64_t>* words() { return reinterpret_cast<Atomic<std::uint64_t>*>(this + 1); }
  char* objects() { return reinterpret_cast<char*>(this) + shape().first; }

  void* object_of(unsigned word, unsigned bit) {
    return objects() + ((std::size_t{word} * 64 + bit) << shape().grain_log2);
  }
  std::size_t bit_of(const void* object) {
    return static_cast<std::size_t>(static_cast<const char*>(object) - objects()) >> shape().grain_log2;
  }

  // A page of the pool becomes a claimed slab of class c with every object free. One that was such a slab before is
  // as it should be. For whoever has it alone.
  void init(unsigned c) {
    const std::uint64_t now = state.load(std::memory_order_relaxed);
    const policy::SlabShape& made = policy::SlabClasses::kShapes[c];
    if (in_class() != c || count_in(now) != made.objects) {
      size_class.store(static_cast<std::uint8_t>(c), std::memory_order_relaxed);
      const unsigned step = made.bytes >> made.grain_log2;
      const std::size_t end = std::size_t{made.objects} * step;  // bits
      for (std::size_t word = 0, bit = 0; word < made.words; ++word) {
        std::uint64_t mask = 0;
        for (; bit < (word + 1) * 64 && bit < end; bit += step) mask |= std::uint64_t{1} << (bit % 64);
        words()[word].store(mask, std::memory_order_relaxed);
      }
    }
    state.store(moved(now, kClaimed) - (now & (kEpoch - 1)) + kZero + made.objects, std::memory_order_release);
  }

  // The claimant takes what one word holds. Bits of it may not be counted yet.
  std::uint64_t take(unsigned word) {
    if (words()[word].load(std::memory_order_relaxed) == 0) return 0;
    const std::uint64_t bits = words()[word].exchange(0, std::memory_order_acquire);
    state.fetch_sub(static_cast<unsigned>(std::popcount(bits)), std::memory_order_acq_rel);
    return bits;
  }

  // Frees the objects of one word. From here on the slab may be anybody's: ask SlabHeap::settle().
  void give(std::size_t word, std::uint64_t bits) {
    words()[word].fetch_or(bits, std::memory_order_release);
    state.fetch_add(static_cast<unsigned>(std::popcount(bits)), std::memory_order_acq_rel);
  }

  bool worth_claiming() const { return count_in(sample()) >= shape().cutoff; }

  std::uint64_t sample() const { return state.load(std::memory_order_acquire); }

  // Whether this caller moved the slab to `flags`. `seen`: a sample.
  bool move(std::uint64_t seen, std::uint64_t flags) {
    return state.compare_exchange_strong(seen, moved(seen, flags), std::memory_order_acq_rel);
  }

 private:
  static std::uint64_t moved(std::uint64_t seen, std::uint64_t flags) {
    return (((seen & ~(kClaimed | kListed)) + kEpoch) & ~(kClaimed | kListed)) | flags;
  }
};

using BitsetSlab = BitsetSlabOf<>;
static_assert(sizeof(BitsetSlab) == policy::slab::kHeader);

}  // namespace heapyard
