// SPDX-License-Identifier: Apache-2.0
// A source of ranges that reports each range it gives and takes back.
//
// Idea: page records and large blocks both come from the ranges, so the events of BFM's tracer arise here (report of
// BFM, section 4.1). Cost: that of the ranges, and a load. Threads: as the ranges.
#pragma once

#include <cstddef>

#include "heap/layers/concepts.hpp"
#include "heap/tracing/page_events.hpp"

namespace heapyard {

template <LargeSource Ranges>
class ObservedRanges : public Ranges {
 public:
  void* allocate(std::size_t bytes) { return told(Ranges::allocate(bytes)); }
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    return told(Ranges::allocate_aligned(bytes, alignment));
  }
  void free(void* range) {
    tracing::page_returned(range);
    Ranges::free(range);
  }
  bool resize(void* range, std::size_t bytes) {
    const std::size_t before = Ranges::usable(range);
    if (!Ranges::resize(range, bytes)) return false;
    if (Ranges::usable(range) != before) {
      tracing::page_returned(range);
      told(range);
    }
    return true;
  }
  void* move(void* range, std::size_t bytes) {
    tracing::page_returned(range);  // before: its place may be another's at once
    void* moved = Ranges::move(range, bytes);
    told(moved == nullptr ? range : moved);
    return moved;
  }

 private:
  void* told(void* range) {
    if (range != nullptr) tracing::page_taken(range, Ranges::usable(range));
    return range;
  }
};

}  // namespace heapyard
