// SPDX-License-Identifier: Apache-2.0
// Batches of free blocks that threads exchange, by size class, each batch in O(1).
//
// Idea: the depot of Bonwick and Adams, "Magazines and Vmem" (2001). A thread that frees what others allocate fills one
// magazine after another; it leaves half of one here, and the thread that allocates takes it, without a look at a span.
// Each part has a shelf of its own, where its threads look first: blocks stay with those that share their spans, and no
// line of memory goes to and fro between parts.
// What lies here keeps spans from becoming empty, so there is a budget: `most` bytes of a shelf, over all classes,
// which whoever puts a batch here has to know. Cost: O(1) apart from retries; copies of at most kMost pointers.
// Threads: any, without a lock. Batches are never given back to the system: as many are made as ever lay here at once.
// Fork: none is lost, for nobody is inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/core/tagged_stack.hpp"
#include "heap/layers/concepts.hpp"

namespace heapyard {

// Classes: bytes_of(c), kClasses. Pages: where batches lie. Parts: of each class, as its spans have them.
template <SizeClasses Classes, PageSource Pages, unsigned Parts = 1>
class Depot {
 public:
  static constexpr unsigned kMost = 30;  // blocks of a batch

  constexpr Depot() = default;

  // Whether the batch lies here now. n <= kMost. `part`: the calling thread's.
  bool put(unsigned c, void* const* blocks, unsigned n, std::size_t most, unsigned part = 0) {
    Shelf& shelf = shelves_[part];
    const std::size_t bytes = n * Classes::bytes_of(c);
    if (shelf.bytes.load(std::memory_order_relaxed) + bytes > most) return false;
    Batch* batch = shelf.unused.pop();
    if (batch == nullptr && (batch = make(shelf)) == nullptr) return false;
    batch->count = n;
    std::memcpy(batch->blocks, blocks, n * sizeof(void*));
    shelf.bytes.fetch_add(bytes, std::memory_order_relaxed);
    shelf.full[c].push(batch);
    return true;
  }

  // A batch, of how many blocks; 0 if there is none. First from the calling thread's `part`. O(Parts).
  unsigned get(unsigned c, void** blocks, unsigned part = 0) {
    for (unsigned turn = 0; turn < Parts; ++turn) {
      Shelf& shelf = shelves_[(part + turn) % Parts];
      Batch* batch = shelf.full[c].empty() ? nullptr : shelf.full[c].pop();
      if (batch == nullptr) continue;
      const unsigned n = batch->count;
      std::memcpy(blocks, batch->blocks, n * sizeof(void*));
      shelves_[part].unused.push(batch);
      shelf.bytes.fetch_sub(n * Classes::bytes_of(c), std::memory_order_relaxed);
      return n;
    }
    return 0;
  }

  // O(Parts).
  std::size_t bytes() const {
    std::size_t bytes = 0;
    for (const Shelf& shelf : shelves_) bytes += shelf.bytes.load(std::memory_order_relaxed);
    return bytes;
  }
  std::size_t bytes_of_part(unsigned part) const { return shelves_[part].bytes.load(std::memory_order_relaxed); }

 private:
  struct Batch {
    std::atomic<Batch*> link;
    std::size_t count;
    void* blocks[kMost];
  };
  static_assert(sizeof(Batch) == 256);
  static constexpr std::size_t kChunk = 64;  // batches made at a time

  struct alignas(64) Shelf {
    std::atomic<std::size_t> bytes{0};
    core::TaggedStack<Batch> unused;
    core::TaggedStack<Batch> full[Classes::kClasses];
  };

  [[gnu::noinline, gnu::cold]] Batch* make(Shelf& shelf) {
    auto* chunk = static_cast<Batch*>(Pages::map(kChunk * sizeof(Batch)));
    if (chunk == nullptr) return nullptr;
    for (std::size_t i = 1; i < kChunk; ++i) shelf.unused.push(chunk + i);
    return chunk;
  }

  Shelf shelves_[Parts];
};

}  // namespace heapyard
