// SPDX-License-Identifier: Apache-2.0
// The slab of a pointer, when pages of two sizes share a reservation.
//
// Idea: elfmalloc. The first byte of every 2 MiB says which size its pages have. Objects of big pages lie at multiples
// of 64 KiB, so any other address belongs to a small page without a look. Cost: O(1). Threads: any.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/spans/bitset_slab.hpp"

namespace heapyard {

// Spans: the window (backend/virtual_spans.hpp).
template <SpanWindow Spans>
class SlabMap {
 public:
  using Classes = policy::SlabClasses;
  using Span = BitsetSlab;
  using Holder = Span*;
  static constexpr bool kTellsNull = true;
  static constexpr bool kAligned = false;  // the smallest objects lie at multiples of 8
  static constexpr bool kAligns = true;

  constexpr explicit SlabMap(Spans& spans) : spans_(spans) {}

  void reserve() const { spans_.reserve(); }
  bool owns(const void* block) const { return spans_.contains(block); }
  static Span* holder_of(const void* block) { return of(block); }

  static Span* of(const void* block) {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    if (at % kMedium == 0) [[unlikely]] {
      auto* first = reinterpret_cast<Span*>(at & ~(policy::slab::kBigPage - 1));
      if (first->big_page) return first;
    }
    return reinterpret_cast<Span*>(at & ~(policy::slab::kSmallPage - 1));
  }

  static void* start_of(Span*, void* block) { return block; }
  static std::size_t usable(const void* block) { return Classes::bytes_of(of(block)->in_class()); }

  // Objects of a power of two are aligned to their size.
  static std::size_t bytes_to_align(std::size_t bytes, std::size_t alignment) {
    return std::bit_ceil(bytes < alignment ? alignment : bytes);
  }
  static void* align(void* block, std::size_t) { return block; }

  // Objects that a front end holds count as in use: it counts them itself. O(slabs).
  template <class Slabs>
  static HeapUsage usage(const Slabs& slabs) {
    HeapUsage sum{};
    slabs.for_each_slab([&](const Span* slab) {
      const std::uint64_t state = slab->sample();
      if (state == 0) return;  // never used
      const policy::SlabShape& shape = slab->shape();
      const std::uint32_t free = Span::count_in(state);
      const std::size_t held = shape.objects - std::min<std::size_t>(free, shape.objects);
      sum.mapped += shape.span;
      sum.free += shape.span - held * shape.bytes;
    });
    return sum;
  }

 private:
  static constexpr std::uintptr_t kMedium = std::uintptr_t{64} << 10;

  Spans& spans_;
};

}  // namespace heapyard
