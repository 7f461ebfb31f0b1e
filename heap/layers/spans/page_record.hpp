// SPDX-License-Identifier: Apache-2.0
// A page record: 1,024 words that hold blocks of one size, and the prefix by which a block finds it.
//
// Idea: BFM (paper, section 2.1, figure 2). Blocks are cut from the unfracted rest as they are first needed, so
// that memory that was never asked for is never touched; freed blocks form a list through their first user word.
// The prefix is the address of the record and, in the 16 bits that user addresses do not need, the size class, so
// that a free need not read the record to know it. Cost: O(1) each. Threads: the lock of the heap that owns the
// record.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/size_steps.hpp"

namespace heapyard {

// Link of a free block, at its user address; every block has room for it.
struct FreeBlock {
  FreeBlock* next;
};

struct PageRecord {
  static constexpr std::size_t kPayload = 1024 * core::kWord;

  PageRecord* next;  // of the ring of its size class
  PageRecord* prev;
  FreeBlock* freed;
  char* unfracted;         // where the next block is cut: its prefix
  std::uint16_t used;      // INVARIANT: capacity - used = length of `freed` + blocks left in the unfracted rest
  std::uint16_t capacity;  // blocks in all
  std::uint16_t stride;    // bytes from one block to the next, prefix included
  std::uint16_t owner;     // index of the bucket heap

  // Bytes of a record: blocks begin one word before a multiple of 16, so users see aligned memory.
  static constexpr std::size_t bytes() { return first_block() + kPayload; }

  static PageRecord* make(void* memory, std::size_t block_bytes, unsigned owner) {
    auto* record = static_cast<PageRecord*>(memory);
    record->freed = nullptr;
    record->unfracted = static_cast<char*>(memory) + first_block();
    record->stride = static_cast<std::uint16_t>(block_bytes + core::kWord);
    record->used = 0;
    record->capacity = static_cast<std::uint16_t>(kPayload / record->stride);
    record->owner = static_cast<std::uint16_t>(owner);
    return record;
  }

  bool full() const { return used == capacity; }
  bool unused() const { return used == 0; }

  // Up to n blocks, as many as there are. O(n).
  unsigned take(unsigned size_class, void** blocks, unsigned n) {
    const unsigned room = static_cast<unsigned>(capacity - used);
    if (n > room) n = room;
    used = static_cast<std::uint16_t>(used + n);
    unsigned i = 0;
    for (; i < n && freed != nullptr; ++i) {
      blocks[i] = freed;
      freed = freed->next;
    }
    const std::uint64_t prefix = reinterpret_cast<std::uint64_t>(this) | std::uint64_t{size_class} << kClassShift;
    for (; i < n; ++i) {
      auto* block = reinterpret_cast<std::uint64_t*>(unfracted);
      unfracted += stride;
      *block = prefix;
      blocks[i] = block + 1;
    }
    return n;
  }

  void put(void* block) {
    auto* link = static_cast<FreeBlock*>(block);
    link->next = freed;
    freed = link;
    --used;
  }

  static std::uint64_t prefix_of(const void* block) { return static_cast<const std::uint64_t*>(block)[-1]; }
  static PageRecord* of(const void* block) {
    return reinterpret_cast<PageRecord*>(prefix_of(block) & ((std::uint64_t{1} << kClassShift) - 1));
  }
  // Not for blocks of the tree, whose prefix is 0.
  static unsigned class_of(std::uint64_t prefix) { return static_cast<unsigned>(prefix >> kClassShift); }

 private:
  static constexpr int kClassShift =
      56;  // addresses of user space have 56 bits at most, with five-level page tables too
  static constexpr std::size_t first_block() { return (sizeof(PageRecord) + core::kWord + 15) / 16 * 16 - core::kWord; }
};

}  // namespace heapyard
