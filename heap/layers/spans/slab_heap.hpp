// SPDX-License-Identifier: Apache-2.0
// Slabs of every class: which are offered to all threads, which are empty, and which thread may claim one.
//
// Idea: elfmalloc's shared queues. A slab that no front end claims is listed when its free objects pass the cutoff (60
// %). An entirely free slab goes back to the pool of pages in the very call that frees its last object. The original
// keeps both in queues of fetch-and-add cells with epoch reclamation, and revokes a cell. Here each class has a few
// rings under a lock, because a slab must be taken out of the middle. A thread skips an empty ring without taking its
// lock.
// Cost: O(1) apart from retries, claim O(rings). Threads: any. Lock order: a ring's lock alone.
//
// INVARIANT: LISTED in a slab's state says that it is on the ring that its address and class name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/ring.hpp"
#include "heap/policy/slab_classes.hpp"
#include "heap/layers/span_concepts.hpp"
#include "heap/os/bound.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

// Rings: of each class. SmallPool, BigPool: get(c, thread) and put(slab, thread) for pages of either size.
template <SpanStore SmallPool, SpanStore BigPool, unsigned Rings>
class SlabHeap {
 public:
  using Classes = policy::SlabClasses;
  using Slab = typename SmallPool::Span;  // a BitsetSlabOf<Concurrency>
  using Concurrency = typename Slab::Concurrency;

  constexpr SlabHeap(SmallPool& small, BigPool& big) : small_(small), big_(big) {}

  // A slab of class c with a free object, the caller's alone; null when memory is out. `thread`: any number.
  Slab* claim(unsigned c, unsigned thread) {
    for (unsigned i = 0; i < Rings; ++i) {
      Listed& listed = listed_[c][(thread + i) % Rings];
      if (listed.count.load(std::memory_order_relaxed) == 0) continue;
      const os::Locked locked(listed.lock);
      Slab* slab = listed.slabs.front();
      if (slab == nullptr) continue;
      // Under the lock only counts change, by objects that come back.
      for (os::Bound bound(Classes::kShapes[c].objects); !slab->move(slab->sample(), Slab::kClaimed);) bound.turn();
      unlist(listed, slab);
      return slab;
    }
    Slab* slab = Classes::kShapes[c].slot == 0 ? small_.get(c, thread) : big_.get(c, thread);
    if (slab != nullptr) slab->init(c);
    return slab;
  }

  // The claimant is done with it.
  void unclaim(Slab* slab, unsigned thread) {
    // Only counts change, by objects that come back.
    for (os::Bound bound(slab->shape().objects); !slab->move(slab->sample(), 0);) bound.turn();
    settle(slab, thread);
  }

  // Frees objects of one word of a slab.
  void free(Slab* slab, std::size_t word, std::uint64_t bits, unsigned thread) {
    slab->give(word, bits);
    settle(slab, thread);
  }

  void expect_waste(unsigned c, bool wasteful) {
    Classes::kShapes[c].slot == 0 ? small_.expect_waste(c, wasteful) : big_.expect_waste(c, wasteful);
  }

  void trim(bool all) {
    small_.trim(all);
    big_.trim(all);
  }

  // Calls work(slab) for every page that was ever a slab. O(slabs).
  template <class Work>
  void for_each_slab(Work work) const {
    small_.for_each(work);
    big_.for_each(work);
  }

 private:
  struct alignas(64) Listed {
    typename Concurrency::Lock lock;
    typename Concurrency::template Atomic<unsigned> count{0};  // written under the lock
    core::Ring<Slab> slabs;
  };

  // What becomes of a slab into which objects came back, or that was unclaimed. Any thread may ask at any time: a
  // move wins only if nothing moved or counted since the sample. Bound of the loop: each turn is a move or a count
  // of another thread.
  void settle(Slab* slab, unsigned thread) {
    for (;;) {
      const std::uint64_t seen = slab->sample();
      if (seen & Slab::kClaimed) return;
      const unsigned c = slab->in_class();
      const policy::SlabShape& shape = Classes::kShapes[c];
      const std::uint32_t free = Slab::count_in(seen);
      Listed& listed = listed_[c][ring_of(slab)];
      if (free == shape.objects) {
        if (seen & Slab::kListed) {
          const os::Locked locked(listed.lock);
          if (!slab->move(seen, Slab::kClaimed)) continue;
          unlist(listed, slab);
        } else if (!slab->move(seen, Slab::kClaimed)) {
          continue;
        }
        return shape.slot == 0 ? small_.put(slab, thread) : big_.put(slab, thread);
      }
      if (free < shape.cutoff || (seen & Slab::kListed)) return;
      const os::Locked locked(listed.lock);
      if (!slab->move(seen, Slab::kListed)) continue;
      listed.slabs.push_front(slab);
      listed.count.store(listed.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
  }

  static void unlist(Listed& listed, Slab* slab) {
    listed.slabs.remove(slab);
    listed.count.store(listed.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  static unsigned ring_of(const Slab* slab) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(slab) / policy::slab::kSmallPage) % Rings;
  }

  SmallPool& small_;
  BigPool& big_;
  Listed listed_[Classes::kClasses][Rings];
};

}  // namespace heapyard
