// SPDX-License-Identifier: Apache-2.0
// Blocks of size classes without a span of their own: where address space is short, or threads are very many.
//
// Idea: a span for each class and thread is worth its memory only where memory is plenty. Elsewhere blocks are packed
// as BFM packs them: small ones in page records, whose prefix tells (spans/page_record.hpp), others as ranges of a
// best-fit tree, whose prefix is zero like that of all ranges here. So their free leaves the fast path by itself.
// Cost: a lock, O(1) per small block, O(log N) for others. Threads: any; the address of a thread's errno selects one of
// the record heaps. Lock order: as MultiHeap's. Errors: null.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/spans/page_record.hpp"

namespace heapyard {

// In heaps that have nothing of the kind: their blocks are packed so already.
struct NoTightBlocks {
  static constexpr bool kPacks = false;
  static constexpr bool owns(const void*) { return false; }
  static constexpr void free(void*) {}
  static constexpr std::size_t usable(const void*) { return 0; }
  static constexpr bool resize(const void*, std::size_t) { return false; }
  static constexpr std::size_t free_bytes() { return 0; }
};

// Steps: sizes of the small ones. Records: holds page records, in kHeaps heaps. Ranges: the words before its ranges are
// {size, 0}.
template <SizeClasses Steps, SpanHeap Records, RangeSource Ranges>
class TightBlocks {
 public:
  static constexpr bool kPacks = true;

  constexpr explicit TightBlocks(Ranges& ranges) : ranges_(ranges), records_(ranges) {}

  // `alignment`: a power of two.
  void* allocate(std::size_t bytes, std::size_t alignment) {
    if (alignment > kAlignment) return ranges_.allocate_aligned(bytes, alignment);
    if (bytes > Steps::kLargest) return ranges_.allocate(bytes);
    void* block;
    return records_.allocate(Steps::class_of(bytes), &block, 1, heap()) == 1 ? block : nullptr;
  }

  // Of a block that lies in no span: whether it is of a page record. Else it is a range.
  static bool owns(const void* block) { return PageRecord::prefix_of(block) != 0; }

  void free(void* block) { records_.free(&block, 1); }
  static std::size_t usable(const void* block) {
    return Steps::bytes_of(PageRecord::class_of(PageRecord::prefix_of(block)));
  }
  static bool resize(const void* block, std::size_t bytes) {
    const std::size_t now = usable(block);
    return bytes <= now && bytes >= now / 2;
  }

  // O(page records).
  std::size_t free_bytes() { return records_.free_bytes(); }

 private:
  static constexpr std::size_t kAlignment = 16;

  static unsigned heap() {
    const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(&errno) >> 6) * 0x9e37'79b9'7f4a'7c15;
    return static_cast<unsigned>(mixed >> 32) % Records::kHeaps;
  }

  Ranges& ranges_;
  Records records_;
};

}  // namespace heapyard
