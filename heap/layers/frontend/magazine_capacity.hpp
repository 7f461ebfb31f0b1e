// SPDX-License-Identifier: Apache-2.0
// How many objects a magazine holds, by size class, and whether it takes objects of slabs that its thread does not own.
//
// Idea: elfmalloc's front ends differ in this alone (magazine_cache.hpp). Cost: at compile time.
#pragma once

#include <cstddef>

#include "heap/policy/slab_classes.hpp"

namespace heapyard {

// Objects per magazine.
struct MagazineCapacity {
  static constexpr bool kForeign = true;  // objects of slabs that this thread does not own are kept too
  static constexpr std::size_t of(const policy::SlabShape& shape) {
    if (shape.bytes <= 512) return 65536;
    return (shape.bytes <= 32768 ? std::size_t{512} << 10 : std::size_t{1} << 20) / shape.bytes;
  }
};
// What the published code has instead, for want of parentheses; its measured figures are of this.
struct MagazineCapacityAsBuilt {
  static constexpr bool kForeign = true;
  static constexpr std::size_t of(const policy::SlabShape& shape) {
    return shape.bytes <= 512 ? 65536 : shape.bytes <= 32768 ? 512 : 1;
  }
};
// elfmalloc-l.
struct OwnSlabOnly {
  static constexpr bool kForeign = false;
  static constexpr std::size_t of(const policy::SlabShape& shape) { return shape.objects; }
};

}  // namespace heapyard
