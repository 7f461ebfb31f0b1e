// SPDX-License-Identifier: Apache-2.0
// A range source in which every range is a mapping of its own.
//
// Idea: scalloc and elfmalloc do this with objects above 1 MiB. Cost: one system call each way, at least a page.
// Threads: any. The prefix of a range says that it is a mapping of its own, so a free need not ask this source.
#pragma once

#include <cstddef>

#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"

namespace heapyard {

template <MovingPageSource Pages>
class LoneRanges {
  using Lone = LoneMapping<Pages>;

 public:
  static constexpr bool kMapsEach = true;

  constexpr LoneRanges() = default;
  void* allocate(std::size_t bytes) { return Lone::allocate(bytes, Lone::kPrefix); }
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) { return Lone::allocate(bytes, alignment); }
  void free(void* range) { Lone::free(range); }
  std::size_t usable(const void* range) const { return Lone::usable(range); }
  bool resize(void*, std::size_t) { return false; }
  void* move(void* range, std::size_t bytes) { return Lone::move(range, bytes); }
  void trim() {}
  HeapUsage usage() { return {}; }  // not counted
};

}  // namespace heapyard
