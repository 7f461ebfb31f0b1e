// SPDX-License-Identifier: Apache-2.0
// The span of a pointer, when every span starts at a multiple of the same power of two.
//
// Idea: scalloc (OOPSLA 2015, section 3.1): mask the address. Aligned blocks are cut out of larger ones. The span then
// knows that it has such blocks, and a free in it looks for the start of the block. (The published code marks them in
// the memory before the block, misreads its mark and corrupts the heap.) Cost: O(1). Threads: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Spans: the window (backend/virtual_spans.hpp).
template <SizeClasses ClassesT, SpanWindow Spans, class SpanT = ListSpan>
class VirtualSpanMap {
 public:
  using Classes = ClassesT;
  using Span = SpanT;
  using Holder = Span*;
  static constexpr bool kTellsNull = true;
  static constexpr bool kAligned = true;
  static constexpr bool kAligns = true;

  constexpr explicit VirtualSpanMap(Spans& spans) : spans_(spans) {}

  void reserve() const { spans_.reserve(); }
  bool owns(const void* block) const { return spans_.contains(block); }
  static Span* holder_of(const void* block) { return of(block); }

  static Span* of(const void* block) {
    return reinterpret_cast<Span*>(Spans::begin_of(reinterpret_cast<std::uintptr_t>(block)));
  }

  // Where the block begins that the pointer was cut out of.
  static void* start_of(Span* span, void* block) {
    if (!span->has_middles()) return block;
    const std::size_t bytes = Classes::kShapes[span->in_class()].bytes;
    const auto offset = static_cast<std::size_t>(static_cast<char*>(block) - span->blocks());
    return span->blocks() + offset / bytes * bytes;
  }

  static std::size_t usable(const void* block) {
    Span* span = of(block);
    const auto* at = static_cast<const char*>(block);
    const auto* start = static_cast<const char*>(start_of(span, const_cast<char*>(at)));
    return Classes::kShapes[span->in_class()].bytes - static_cast<std::size_t>(at - start);
  }

  // How many bytes to ask for where `bytes` at a multiple of `alignment`, a power of two, are wanted.
  // At least one: a pointer just behind its block would be another block's.
  static std::size_t bytes_to_align(std::size_t bytes, std::size_t alignment) {
    return (bytes == 0 ? 1 : bytes) + alignment - kAlignment;
  }

  // The aligned pointer into a block of that many.
  static void* align(void* block, std::size_t alignment) {
    of(block)->hand_out_middles();
    return reinterpret_cast<void*>(os::round_up(reinterpret_cast<std::uintptr_t>(block), alignment));
  }

  // Of real spans. Exact while threads do nothing. O(spans + free blocks of hot ones).
  template <class Pool>
  static HeapUsage usage(const Pool& pool) {
    HeapUsage sum{};
    pool.for_each([&](Span* span) {
      const std::uint32_t state = span->sample();  // first: the class is the one that it is in use for
      const auto& shape = Classes::kShapes[span->in_class()];
      sum.mapped += shape.span;
      std::size_t free = shape.blocks;
      if (state & Span::kHot) {
        free = span->remote_count() + span->free_for_owner(shape.bytes, shape.blocks);
      } else if (!(state & Span::kFull)) {
        free = span->free_blocks();
      }
      sum.free += shape.span - (shape.blocks - std::min<std::size_t>(free, shape.blocks)) * shape.bytes;
    });
    return sum;
  }

 private:
  static constexpr std::size_t kAlignment = 16;  // of every block

  Spans& spans_;
};

}  // namespace heapyard
