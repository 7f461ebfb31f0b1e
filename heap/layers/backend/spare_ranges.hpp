// SPDX-License-Identifier: Apache-2.0
// A range source behind another: what the first does not give, the second may still have.
//
// Idea: a mapping of its own for each large block needs as much address space as the block has bytes. Where a limit
// leaves no more, the tree may hold free ranges that were mapped long ago. The prefix tells ranges of the first source
// (lone_mapping.hpp). Cost: that of the first; when it has none, that of both. Threads: as both.
#pragma once

#include <cstddef>

#include "heap/layers/backend/lone_ranges.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"

namespace heapyard {

// Lone: LoneRanges, perhaps observed. Tree: the words before its ranges are {even, 0}.
template <LargeSource Lone, ShrinkingSource Tree, MovingPageSource Pages>
class SpareRanges {
  using Mapping = LoneMapping<Pages>;

 public:
  static constexpr bool kMapsEach = Lone::kMapsEach;

  constexpr explicit SpareRanges(Tree& tree) : tree_(tree) {}

  void* allocate(std::size_t bytes) {
    void* range = lone_.allocate(bytes);
    return range != nullptr ? range : tree_.allocate(bytes);
  }
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    void* range = lone_.allocate_aligned(bytes, alignment);
    return range != nullptr ? range : tree_.allocate_aligned(bytes, alignment);
  }
  void free(void* range) { Mapping::owns(range) ? lone_.free(range) : tree_.free(range); }
  std::size_t usable(const void* range) const {
    return Mapping::owns(range) ? lone_.usable(range) : tree_.usable(range);
  }
  bool resize(void* range, std::size_t bytes) { return !Mapping::owns(range) && tree_.resize(range, bytes); }
  void* move(void* range, std::size_t bytes) {
    return Mapping::owns(range) ? lone_.move(range, bytes) : tree_.move(range, bytes);
  }
  void trim() { tree_.trim(); }
  bool shrink() { return tree_.shrink(); }
  HeapUsage usage() { return tree_.usage(); }

 private:
  Lone lone_;
  Tree& tree_;
};

}  // namespace heapyard
