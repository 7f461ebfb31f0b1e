// SPDX-License-Identifier: Apache-2.0
// Batches of free blocks that threads exchange, by size class, each batch in O(1).
//
// Idea: the depot of Bonwick and Adams, "Magazines and Vmem" (2001). A thread that frees what others allocate fills one
// magazine after another; it leaves half of one here, and the thread that allocates takes it, without a look at a span.
// What lies here keeps spans from becoming empty, so there is a budget: `most` bytes over all classes, which whoever
// puts a batch here has to know.
// Cost: O(1) apart from retries; copies of at most kMost pointers. Threads: any, without a lock. Batches are never
// given back to the system: as many are made as ever lay here at once. Fork: none is lost, for nobody is inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/core/tagged_stack.hpp"
#include "heap/layers/concepts.hpp"

namespace heapyard {

// Classes: bytes_of(c), kClasses. Pages: where batches lie.
template <SizeClasses Classes, PageSource Pages>
class Depot {
 public:
  static constexpr unsigned kMost = 30;  // blocks of a batch

  constexpr Depot() = default;

  // Whether the batch lies here now. n <= kMost.
  bool put(unsigned c, void* const* blocks, unsigned n, std::size_t most) {
    const std::size_t bytes = n * Classes::bytes_of(c);
    if (bytes_.load(std::memory_order_relaxed) + bytes > most) return false;
    Batch* batch = unused_.pop();
    if (batch == nullptr && (batch = make()) == nullptr) return false;
    batch->count = n;
    std::memcpy(batch->blocks, blocks, n * sizeof(void*));
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    full_[c].push(batch);
    return true;
  }

  // A batch, of how many blocks; 0 if there is none.
  unsigned get(unsigned c, void** blocks) {
    if (full_[c].empty()) return 0;
    Batch* batch = full_[c].pop();
    if (batch == nullptr) return 0;
    const unsigned n = batch->count;
    std::memcpy(blocks, batch->blocks, n * sizeof(void*));
    unused_.push(batch);
    bytes_.fetch_sub(n * Classes::bytes_of(c), std::memory_order_relaxed);
    return n;
  }

  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Batch {
    std::atomic<Batch*> link;
    std::size_t count;
    void* blocks[kMost];
  };
  static_assert(sizeof(Batch) == 256);
  static constexpr std::size_t kChunk = 64;  // batches made at a time

  [[gnu::noinline, gnu::cold]] Batch* make() {
    auto* chunk = static_cast<Batch*>(Pages::map(kChunk * sizeof(Batch)));
    if (chunk == nullptr) return nullptr;
    for (std::size_t i = 1; i < kChunk; ++i) unused_.push(chunk + i);
    return chunk;
  }

  core::TaggedStack<Batch> full_[Classes::kClasses];
  core::TaggedStack<Batch> unused_;
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace heapyard
