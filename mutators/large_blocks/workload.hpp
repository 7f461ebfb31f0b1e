// SPDX-License-Identifier: Apache-2.0
// Blocks from a kilobyte to many megabytes that replace each other in a few slots.
//
// After malloc-large of mimalloc-bench: a new block is made before the old one goes, so one more
// than the slots is held. What counts is how an allocator reuses, splits and returns address space, and how often it
// asks the kernel for pages again; the original zeroes whole blocks and so measures memory bandwidth above all. Here
// one byte of each page is written unless all is asked for. Each thread works for itself. Cost O(steps) calls and
// O(steps x size / page) writes a thread. Bookkeeping: 16 bytes per slot.
#pragma once

#include <cstdint>

#include "../kit/octaves.hpp"
#include "../kit/session.hpp"

namespace heapyard::large_blocks {

enum class Law { kLog, kEven };
enum class Write { kEnds, kPages, kAll };

struct Options {
  kit::CommonOptions common;
  Law law = Law::kLog;
  Write write = Write::kPages;
  std::int64_t slots = 20;           // of a thread
  std::int64_t steps = 500;          // of a thread
  std::int64_t min_size = 1 << 10;   // bytes
  std::int64_t max_size = 64 << 20;  // bytes
};

class Workload {
 public:
  Workload(const Options& options, kit::Session& session)
      : options_(options),
        low_(static_cast<std::uint64_t>(options.min_size)),
        high_(static_cast<std::uint64_t>(options.max_size)) {
    for (std::size_t i = 0; i < session.threads(); ++i) session.worker(i).make_table<Block>(slots());
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return static_cast<std::size_t>(options.slots) * sizeof(Block);
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Block* const blocks = worker.table<Block>();
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      const std::uint64_t slot = worker.random.below(slots());
      const Block old = blocks[slot];
      blocks[slot] = make(worker.random, heap, slot);
      discard(heap, old, slot);
    }
  }

  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    for (std::uint64_t i = 0; i < slots(); ++i) discard(heap, worker.table<Block>()[i], i);
  }

 private:
  struct Block {
    std::uint8_t* bytes;
    std::uint64_t size;
  };

  std::uint64_t slots() const { return static_cast<std::uint64_t>(options_.slots); }

  template <class Operations>
  Block make(Random& random, Operations& heap, std::uint64_t slot) {
    const std::uint64_t size =
        options_.law == Law::kLog ? kit::Octaves(low_, high_).draw(random) : random.between(low_, high_);
    auto* const bytes = static_cast<std::uint8_t*>(heap.allocate(size, slot));
    const auto mark = static_cast<std::uint8_t>(slot);
    if (options_.write == Write::kAll) kit::write_all(bytes, size, mark);
    if (options_.write == Write::kPages) kit::write_pages(bytes, size, mark);
    bytes[0] = bytes[size - 1] = mark;
    heap.hold(size);
    return {bytes, size};
  }

  // An empty slot is fine.
  template <class Operations>
  void discard(Operations& heap, const Block& block, std::uint64_t slot) {
    if (!block.bytes) return;
    heap.saw(block.bytes[0]);
    heap.saw(block.bytes[block.size - 1]);
    heap.drop(block.size);
    heap.release(block.bytes, slot);
  }

  const Options& options_;
  std::uint64_t low_, high_;
};

}  // namespace heapyard::large_blocks
