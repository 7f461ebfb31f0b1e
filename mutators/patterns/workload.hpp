// SPDX-License-Identifier: Apache-2.0
// One allocation pattern, played from start to end: allocate all, release half, fill the holes, release all.
//
// After the BFM report (pattern.hpp). Each thread plays the whole pattern with its share of the footprint. Every block
// is filled when it is made. Sizes and orders are computed beforehand, so all allocators get the same ones and none of
// it is timed. Figure 4 yields sizes of 0 words; these ask for one byte, because no standard says what malloc(0) gives.
// Cost: O(blocks) calls a round. Bookkeeping: 24 bytes per block.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "../kit/session.hpp"
#include "pattern.hpp"

namespace heapyard::patterns {

struct Options {
  kit::CommonOptions common;
  Pattern pattern;
  std::int64_t footprint = 256 << 20;  // bytes of the blocks first allocated, of all threads together
  std::int64_t blocks = 0;             // instead, of all threads together; 0: as many as the footprint holds
  std::int64_t rounds = 1;             // times the pattern is played
  std::int64_t word = 8;               // bytes in the pattern's unit
  bool lifo = false;                   // alt: both halves are freed backwards
  bool replace = false;                // r: blocks are replaced one by one, as many as there are, before the end
  bool verify = false;                 // every byte is read before a release
};

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Own>(1);
      Own& own = *worker.table<Own>();
      own.count = blocks_of(options, i);
      own.blocks = worker.arena.take<void*>(own.count);
      own.sizes = worker.arena.take<std::uint32_t>(own.count);
      own.middle = worker.arena.take<std::uint32_t>(own.count);
      own.last = worker.arena.take<std::uint32_t>(own.count);
      own.refill = worker.arena.take<std::uint32_t>(own.count);
    }
  }

  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Own) + blocks_of(options, 0) * (sizeof(void*) + 4 * sizeof(std::uint32_t)) + 8 * kit::kCacheLine;
  }

  // How many blocks a thread has: a multiple of 4, as figure 4 wants; at least 4. O(blocks).
  static std::uint64_t blocks_of(const Options& options, std::size_t thread) {
    const auto threads = static_cast<std::size_t>(options.common.threads);
    if (options.blocks) return at_least_4(kit::share(static_cast<std::uint64_t>(options.blocks), threads, thread));
    const std::uint64_t room = kit::share(static_cast<std::uint64_t>(options.footprint), threads, thread);
    const Pattern& p = options.pattern;
    const auto word = static_cast<std::uint64_t>(options.word);
    if (p.sizes != Sizes::kSteps) return at_least_4(2 * room / ((p.low + p.high) * word + (p.low + p.high == 0)));
    std::uint64_t count = 0;
    for (std::uint64_t taken = 0; count < kMostBlocks; ++count) {
      taken += step(p, count, 8) * word;
      if (taken > room) break;
    }
    return at_least_4(count);
  }

  // Draws sizes and orders. No heap call.
  template <class Operations>
  void before(kit::Worker& worker, Operations&) {
    const Pattern& p = options_.pattern;
    Own& own = *worker.table<Own>();
    for (std::uint64_t i = 0; i < own.count; ++i) {
      const std::uint64_t words = p.sizes == Sizes::kRandom  ? worker.random.between(p.low, p.high)
                                  : p.sizes == Sizes::kTurns ? (i % 2 ? p.high : p.low)
                                                             : step(p, i, 8);
      own.sizes[i] = bytes(words);
    }
    if (p.middle != Order::kNone) {
      own.in_middle = own.count / 2;
      put_in_order(worker, p.middle, own.middle, own.count);
      for (std::uint64_t i = 0; i < own.count; ++i) own.refill[i] = bytes(step(p, i, 7));
    } else if (options_.replace) {
      own.in_middle = own.count;
      for (std::uint64_t i = 0; i < own.count; ++i) {
        own.middle[i] = static_cast<std::uint32_t>(worker.random.below(own.count));
        own.refill[i] = bytes(worker.random.between(p.low, p.high));
      }
    }
    put_in_order(worker, p.last == Order::kTurns && options_.lifo ? Order::kTurnsLifo : p.last, own.last, own.count);
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (std::uint64_t i = 0; i < own.count; ++i) make(heap, own, i, own.sizes[i]);
      if (options_.pattern.middle != Order::kNone) {
        for (std::uint64_t k = 0; k < own.in_middle; ++k) discard(heap, own, own.middle[k], own.sizes[own.middle[k]]);
        for (std::uint64_t i = 0; i < own.count; ++i) {
          if (own.blocks[i] == nullptr)
            make(heap, own, i, own.refill[i]);
          else
            own.refill[i] = own.sizes[i];  // so that the end finds every block's size in one place
        }
      } else {
        for (std::uint64_t k = 0; k < own.in_middle; ++k) {
          const std::uint32_t i = own.middle[k];
          discard(heap, own, i, own.sizes[i]);
          make(heap, own, i, own.sizes[i] = own.refill[k]);
        }
      }
      const std::uint32_t* sizes = options_.pattern.middle != Order::kNone ? own.refill : own.sizes;
      for (std::uint64_t k = 0; k < own.count; ++k) discard(heap, own, own.last[k], sizes[own.last[k]]);
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

 private:
  static constexpr int kFill = 0xDF;  // figure 4
  static constexpr std::uint64_t kMostBlocks = 1u << 28;
  static constexpr std::uint64_t kRun = 256;  // blocks of one size in figure 4's first phase

  struct Own {
    void** blocks;
    std::uint32_t* sizes;   // bytes
    std::uint32_t* refill;  // bytes of what takes the place of those released in the middle
    std::uint32_t* middle;  // released in this order, the first `in_middle`
    std::uint32_t* last;    // then all in this order
    std::uint64_t count, in_middle;
  };

  static std::uint64_t at_least_4(std::uint64_t blocks) { return blocks < 4 ? 4 : blocks & ~std::uint64_t{3}; }
  // Words of block i in the first (shift 8) or second phase (7) of figure 4.
  static std::uint64_t step(const Pattern& p, std::uint64_t i, int shift) {
    const std::uint64_t words = p.low + ((1 + i) >> shift);
    return p.wrap ? words % p.wrap : words;
  }
  std::uint32_t bytes(std::uint64_t words) const {
    const std::uint64_t wanted = words * static_cast<std::uint64_t>(options_.word);
    return static_cast<std::uint32_t>(wanted ? wanted : 1);
  }

  template <class Operations>
  void make(Operations& heap, Own& own, std::uint64_t i, std::uint32_t size) {
    own.blocks[i] = std::memset(heap.allocate(size, i), kFill, size);
    heap.hold(size);
  }

  template <class Operations>
  void discard(Operations& heap, Own& own, std::uint64_t i, std::uint32_t size) {
    if (options_.verify) {
      std::uint64_t sum = 0;
      for (std::uint32_t b = 0; b < size; ++b) sum += static_cast<const std::uint8_t*>(own.blocks[i])[b];
      heap.saw(sum);
    }
    heap.drop(size);
    heap.release(std::exchange(own.blocks[i], nullptr), i);
  }

  // A permutation of 0 .. count - 1. O(count).
  static void put_in_order(kit::Worker& worker, Order order, std::uint32_t* out, std::uint64_t count) {
    std::uint64_t at = 0;
    const auto add = [&](std::uint64_t i) { out[at++] = static_cast<std::uint32_t>(i); };
    const auto every = [&](std::uint64_t first, std::uint64_t stride) {
      for (std::uint64_t i = first; i < count; i += stride) add(i);
    };
    const auto every_backward = [&](std::uint64_t first, std::uint64_t stride) {
      for (std::uint64_t i = count; i-- > 0;) {
        if (i % stride == first) add(i);
      }
    };
    switch (order) {
      case Order::kNone:
      case Order::kAscending:
        every(0, 1);
        break;
      case Order::kDescending:
        every_backward(0, 1);
        break;
      case Order::kTurns:
      case Order::kEven:
        every(0, 2);
        every(1, 2);
        break;
      case Order::kTurnsLifo:
      case Order::kEvenBackward:
        every_backward(0, 2);
        every_backward(1, 2);
        break;
      case Order::kStride4:
        for (std::uint64_t first = 0; first < 4; ++first) every(first, 4);
        break;
      case Order::kRuns:
        for (std::uint64_t odd = 0; odd < 2; ++odd) {
          for (std::uint64_t i = 0; i < count; ++i) {
            if (i / kRun % 2 == odd) add(i);
          }
        }
        break;
      case Order::kRandom:
        every(0, 1);
        for (std::uint64_t i = 0; i + 1 < count; ++i) std::swap(out[i], out[worker.random.between(i, count - 1)]);
        break;
      case Order::kEnds:
        for (std::uint64_t i = 0; i < count / 2; ++i) {
          add(i);
          add(count - 1 - i);
        }
        break;
    }
  }

  const Options& options_;
};

}  // namespace heapyard::patterns
