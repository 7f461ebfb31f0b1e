// SPDX-License-Identifier: Apache-2.0
// Several heaps of spans over one source of ranges; each thread allocates from one of them.
//
// Idea: BFM, section 3.3, after Hoard. Threads spread over bucket components; empty page records meet again in the one
// tree. A block goes back to the heap that owns its record. Threads take the heaps in turn and keep theirs, because the
// paper found that a hash of the thread matters much ("very sensitive to the hash function").
// Cost: that of the heaps; a free groups blocks by owner, O(n) for n blocks. Threads: the heaps' locks. Lock order:
// heaps by index, then the ranges.
#pragma once

#include <atomic>
#include <cstddef>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/spans/page_record.hpp"
#include "heap/os/bound.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

// Most: heaps at most, a power of two; as many are used as there are processors, twice, rounded up to a power of two.
template <class Heap, RangeSource Ranges, unsigned Most>
  requires BucketOfHeaps<Heap, Ranges>
class MultiHeap {
 public:
  static constexpr unsigned kClasses = Heap::kClasses;
  static constexpr unsigned kHeaps = Most;

  constexpr explicit MultiHeap(Ranges& ranges) : ranges_(ranges) {}

  unsigned allocate(unsigned size_class, void** blocks, unsigned n, unsigned heap) {
    return heaps_[heap].allocate(ranges_, size_class, blocks, n, heap);
  }

  void free(void** blocks, unsigned n) {
    if constexpr (Most == 1) return heaps_[0].free(ranges_, blocks, n);
    os::Bound bound(n);
    for (unsigned i = 0; i < n;) {
      bound.turn();
      const PageRecord* record = PageRecord::of(blocks[i]);
      const unsigned owner = record->owner;
      unsigned end = i + 1;
      while (end < n && (PageRecord::of(blocks[end]) == record || PageRecord::of(blocks[end])->owner == owner)) ++end;
      heaps_[owner].free(ranges_, blocks + i, end - i);
      i = end;
    }
  }

  // The heap a thread that starts now keeps to.
  unsigned heap_of_new_thread() {
    if constexpr (Most == 1) return 0;
    if (in_use_.load(std::memory_order_relaxed) == 0) {
      unsigned heaps = 1;
      while (heaps < 2 * os::processors() && heaps < Most) heaps *= 2;
      in_use_.store(heaps, std::memory_order_relaxed);  // every thread that comes here finds the same number
    }
    return next_.fetch_add(1, std::memory_order_relaxed) & (in_use_.load(std::memory_order_relaxed) - 1);
  }

  static constexpr std::size_t occupied(unsigned size_class) { return Heap::occupied(size_class); }

  // O(page records).
  std::size_t free_bytes() {
    std::size_t bytes = 0;
    for (Heap& heap : heaps_) bytes += heap.free_bytes(ranges_);
    return bytes;
  }

  // An empty record is a range already.
  static void trim(bool) {}

  bool consistent() const {
    for (const Heap& heap : heaps_) {
      if (!heap.consistent()) return false;
    }
    return true;
  }

 private:
  Ranges& ranges_;
  std::atomic<unsigned> next_{0};
  std::atomic<unsigned> in_use_{0};
  Heap heaps_[Most];
};

}  // namespace heapyard
