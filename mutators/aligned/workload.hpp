// SPDX-License-Identifier: Apache-2.0
// Objects of many sizes and alignments that replace each other at random, some with an alignment asked for, some not.
//
// Alignments are powers of two, each as likely; an allocator that pays for one with a block of the next power of two,
// or that cannot reuse the padding, shows in memory. What is not aligned as asked gives a wrong checksum. Each thread
// works for itself. Cost O(steps) calls a thread. Bookkeeping: 16 bytes per slot.
#pragma once

#include <bit>
#include <cstdint>

#include "../kit/octaves.hpp"
#include "../kit/session.hpp"

namespace heapyard::aligned {

enum class How { kPosix, kC, kMixed };

struct Options {
  kit::CommonOptions common;
  How how = How::kMixed;
  std::int64_t slots = 2000;          // objects of a thread
  std::int64_t steps = 500'000;       // replacements by a thread
  std::int64_t min_size = 8;          // bytes
  std::int64_t max_size = 8 << 10;    // bytes
  std::int64_t min_alignment = 8;     // bytes, a power of two
  std::int64_t max_alignment = 4096;  // bytes, a power of two
  std::int64_t plain = 25;            // percent of the objects that come from malloc
};

class Workload {
 public:
  Workload(const Options& options, kit::Session& session)
      : options_(options),
        session_(session),
        sizes_(static_cast<std::uint64_t>(options.min_size), static_cast<std::uint64_t>(options.max_size)) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      session.worker(i).make_table<Own>(1);
      session.worker(i).table<Own>()->blocks = session.worker(i).arena.take<Block>(slots());
    }
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Own) + static_cast<std::size_t>(options.slots) * sizeof(Block);
  }

  template <class Operations>
  void before(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    for (std::uint64_t i = 0; i < slots(); ++i) own.blocks[i] = make(own, worker.random, heap, i);
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    Random random = worker.random;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      const std::uint64_t slot = random.below(slots());
      discard(heap, own.blocks[slot], slot);
      own.blocks[slot] = make(own, random, heap, slot);
    }
  }

  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    for (std::uint64_t i = 0; i < slots(); ++i) discard(heap, worker.table<Own>()->blocks[i], i);
  }

  // Blocks that did not lie on the boundary asked for. O(threads).
  std::uint64_t misaligned() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < session_.threads(); ++i) sum += session_.worker(i).table<Own>()->misaligned;
    return sum;
  }

 private:
  struct Block {
    std::uint8_t* bytes;
    std::uint64_t size;
  };
  struct Own {
    Block* blocks;
    std::uint64_t misaligned;
  };

  static std::uint64_t log2(std::int64_t power) {
    return static_cast<std::uint64_t>(std::countr_zero(static_cast<std::uint64_t>(power)));
  }
  std::uint64_t slots() const { return static_cast<std::uint64_t>(options_.slots); }

  template <class Operations>
  Block make(Own& own, Random& random, Operations& heap, std::uint64_t slot) {
    std::uint64_t size = sizes_.draw(random);
    void* made;
    if (random.percent(static_cast<std::uint64_t>(options_.plain))) {
      made = heap.allocate(size, slot);
    } else {
      const std::uint64_t alignment = std::uint64_t{1}
                                      << random.between(log2(options_.min_alignment), log2(options_.max_alignment));
      if (options_.how == How::kC || (options_.how == How::kMixed && random.below(2) == 1)) {
        size = kit::round_up(size, alignment);  // C11 asks for whole multiples
        made = heap.allocate_multiple(alignment, size, slot);
      } else {
        made = heap.allocate_aligned(alignment, size, slot);
      }
      const std::uint64_t off = reinterpret_cast<std::uintptr_t>(made) % alignment;
      own.misaligned += off != 0;
      heap.saw(alignment + off);
    }
    kit::write_pages(made, size, static_cast<std::uint8_t>(slot));
    heap.hold(size);
    return {static_cast<std::uint8_t*>(made), size};
  }

  template <class Operations>
  void discard(Operations& heap, const Block& block, std::uint64_t slot) {
    heap.saw(block.bytes[0]);
    heap.saw(block.bytes[block.size - 1]);
    heap.drop(block.size);
    heap.release(block.bytes, slot);
  }

  const Options& options_;
  kit::Session& session_;
  kit::Octaves sizes_;
};

}  // namespace heapyard::aligned
