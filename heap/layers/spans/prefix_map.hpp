// SPDX-License-Identifier: Apache-2.0
// The size class of a pointer, from the word before its block.
//
// Idea: BFM (paper, sections 2.1 and 2.2). The word is the address of a page record, with the class, for a block of a
// class, and zero for any other. So nothing is asked of the ranges below. Cost: O(1), one load; 8 bytes per block.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/spans/page_record.hpp"

namespace heapyard {

template <SizeClasses Steps>
struct PrefixMap {
  using Classes = Steps;
  using Holder = unsigned;                   // the class
  static constexpr bool kTellsNull = false;  // no word lies before null
  static constexpr bool kAligned = true;
  static constexpr bool kAligns = false;  // no pointer into a block has the word before it

  static void reserve() {}
  static bool owns(const void* block) { return PageRecord::prefix_of(block) != 0; }
  static unsigned holder_of(const void* block) { return PageRecord::class_of(PageRecord::prefix_of(block)); }
  static std::size_t usable(const void* block) { return Classes::bytes_of(holder_of(block)); }

  // Records are ranges, and counted as mapped with them. O(page records).
  template <class Records>
  static HeapUsage usage(Records& records) {
    return {0, records.free_bytes()};
  }
};

}  // namespace heapyard
