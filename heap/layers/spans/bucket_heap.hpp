// SPDX-License-Identifier: Apache-2.0
// Small blocks from page records, one ring of records per size: BFM's bucket component.
//
// Idea: paper, section 2.1. In each ring the records with room come first (white), the full ones last (black).
// Blocks are taken from the front record only; a record that fills goes to the back, one that was full and gets a
// block back goes to the front. So records far from the front drain, and an entirely free one goes back to the
// ranges at once. Cost: O(1) per block, and one O(log N) call of the range source per record taken or given back.
// Threads: one lock per heap; a free takes the lock of the heap that owns the block. Lock order: this one, then the
// range source's.
//
// INVARIANT: a ring is white* black*, seen from its front.
#pragma once

#include <cstddef>

#include "heap/core/ring.hpp"
#include "heap/layers/span_concepts.hpp"
#include "heap/layers/spans/page_record.hpp"
#include "heap/os/bound.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

// What to do with a record that holds no block any more: the paper gives it back at once.
struct GiveBack {
  static bool keep(const core::Ring<PageRecord>&) { return false; }
};

// The last white record of its size stays, so that one block more or less than a record holds does not cost two
// calls.
struct KeepLast {
  static bool keep(const core::Ring<PageRecord>& ring) {
    const PageRecord* front = ring.front();
    return front->unused() && (front->next == front || front->next->full());
  }
};

// In cache lines of its own, for the one beside it is another thread's.
template <SizeClasses Steps, RangeSource Ranges, KeepPolicy<core::Ring<PageRecord>> OnEmpty = GiveBack>
class alignas(64) BucketHeap {
 public:
  static constexpr unsigned kClasses = Steps::kClasses;

  constexpr BucketHeap() = default;

  // Up to n blocks of a class; fewer, or 0, when memory is out.
  unsigned allocate(Ranges& ranges, unsigned size_class, void** blocks, unsigned n, unsigned index) {
    const os::Locked locked(lock_);
    core::Ring<PageRecord>& ring = rings_[size_class];
    os::Bound bound(n);  // each turn takes a block
    for (unsigned got = 0; got < n;) {
      bound.turn();
      PageRecord* record = ring.front();
      if (record == nullptr || record->full()) {
        void* memory = ranges.allocate(PageRecord::bytes());
        if (memory == nullptr) return got;
        record = PageRecord::make(memory, Steps::bytes_of(size_class), index);
        ring.push_front(record);
      }
      got += record->take(size_class, blocks + got, n - got);
      if (record->full()) ring.front_to_back();
    }
    return n;
  }

  // Blocks of this heap's records, all of them.
  void free(Ranges& ranges, void* const* blocks, unsigned n) {
    const os::Locked locked(lock_);
    os::Bound bound(n);
    for (unsigned i = 0; i < n;) {
      bound.turn();
      const std::uint64_t prefix = PageRecord::prefix_of(blocks[i]);
      PageRecord* record = PageRecord::of(blocks[i]);
      do {
        record->put(blocks[i++]);
      } while (i < n && PageRecord::prefix_of(blocks[i]) == prefix);  // blocks freed together often lie together
      core::Ring<PageRecord>& ring = rings_[PageRecord::class_of(prefix)];
      switch (transition(ring, record)) {
        case Transition::empty:
          if (OnEmpty::keep(ring)) break;
          ring.remove(record);
          ranges.free(record);
          break;
        case Transition::reusable:
          ring.remove(record);
          ring.push_front(record);
          break;
        case Transition::none:
          break;
      }
    }
  }

  // What a block takes of its record.
  static constexpr std::size_t occupied(unsigned size_class) { return Steps::bytes_of(size_class) + core::kWord; }

  // Bytes of this heap's records that no block occupies. O(records).
  std::size_t free_bytes(const Ranges& ranges) {
    const os::Locked locked(lock_);
    std::size_t bytes = 0;
    for (const core::Ring<PageRecord>& ring : rings_) {
      const PageRecord* record = ring.front();
      if (record == nullptr) continue;
      do {
        bytes += ranges.occupied(record) - std::size_t{record->used} * record->stride;
        record = record->next;
      } while (record != ring.front());
    }
    return bytes;
  }

  // For tests: whether every INVARIANT holds. O(records).
  bool consistent() const {
    for (const core::Ring<PageRecord>& ring : rings_) {
      const PageRecord* record = ring.front();
      if (record == nullptr) continue;
      bool black = false;
      do {
        if (black && !record->full()) return false;
        black = record->full();
        std::uint32_t room = static_cast<std::uint32_t>(reinterpret_cast<const char*>(record) + PageRecord::bytes() -
                                                        record->unfracted) /
                             record->stride;
        for (const FreeBlock* block = record->freed; block != nullptr; block = block->next) ++room;
        if (room + record->used != record->capacity) return false;
        record = record->next;
      } while (record != ring.front());
    }
    return true;
  }

 private:
  // Of a record that got blocks back.
  static Transition transition(const core::Ring<PageRecord>& ring, const PageRecord* record) {
    if (record->unused()) return Transition::empty;
    // Behind a full one it was full itself; at the front there is nothing before it.
    return record != ring.front() && record->prev->full() ? Transition::reusable : Transition::none;
  }

  os::Lock lock_;
  core::Ring<PageRecord> rings_[kClasses];
};

}  // namespace heapyard
