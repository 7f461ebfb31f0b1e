// SPDX-License-Identifier: Apache-2.0
// Tiny pairs of malloc and free around an allocator's caches: a few objects up and down, or a small set at random.
//
// What bench-malloc-simple and bench-malloc-thread of glibc ask, written from their descriptions.
//   simple  so many objects of one size, each written; the first half released in the order of allocation, the second
//           in reverse; again and again for each of four depths, ever further beyond an allocator's caches
//   random  each thread replaces random objects of a small set; a size s comes with a density of 1 / s^2
// Cost O(objects) calls a thread. Bookkeeping: 8 bytes per object held, 4 per size drawn beforehand.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../kit/session.hpp"

namespace heapyard::pairs {

enum class Mode { kSimple, kRandom };

struct Options {
  kit::CommonOptions common;
  Mode mode = Mode::kSimple;
  std::int64_t objects = 2'000'000;  // allocations of a thread; simple: for each depth
  std::int64_t size = 16;            // bytes, simple
  std::int64_t depth = 0;            // simple: objects held at once; 0: kDepths in turn
  std::int64_t slots = 1024;         // random: objects held by a thread
  std::int64_t min_size = 4;         // bytes, random
  std::int64_t max_size = 32768;     // bytes, random
};

inline constexpr std::int64_t kDepths[] = {25, 100, 400, 1600};

// A size in [low, high] with density 1 / s^2, from a uniform 32-bit number: the inverse of the distribution function,
// in whole numbers, so that every machine draws the same.
constexpr std::uint32_t inverse_square(std::uint64_t low, std::uint64_t high, std::uint32_t uniform) {
  using Wide = unsigned __int128;
  const Wide above = (static_cast<Wide>(high) << 32) - static_cast<Wide>(uniform) * (high - low);
  return static_cast<std::uint32_t>((static_cast<Wide>(low) * high << 32) / above);
}

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Own>(1);
      *worker.table<Own>() = {worker.arena.take<void*>(held(options)), worker.arena.take<std::uint32_t>(kSizes)};
    }
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Own) + held(options) * sizeof(void*) + kSizes * sizeof(std::uint32_t);
  }

  template <class Operations>
  void before(kit::Worker& worker, Operations& heap) {
    if (options_.mode == Mode::kSimple) return;
    const Own& own = *worker.table<Own>();
    for (std::size_t i = 0; i < kSizes; ++i)
      own.sizes[i] =
          inverse_square(static_cast<std::uint64_t>(options_.min_size), static_cast<std::uint64_t>(options_.max_size),
                         static_cast<std::uint32_t>(worker.random.next() >> 32));
    for (std::uint64_t i = 0; i < held(options_); ++i) own.objects[i] = make(heap, own.sizes[i % kSizes], i);
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    const Own& own = *worker.table<Own>();
    if (options_.mode == Mode::kRandom) return replace(own, worker.random, heap);
    if (options_.depth) return up_and_down(own, static_cast<std::uint64_t>(options_.depth), heap);
    for (const std::int64_t depth : kDepths) up_and_down(own, static_cast<std::uint64_t>(depth), heap);
  }

  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    if (options_.mode == Mode::kSimple) return;
    for (std::uint64_t i = 0; i < held(options_); ++i) heap.release(worker.table<Own>()->objects[i], i);
  }

  static constexpr std::size_t kSizes = 4096;  // drawn beforehand and used in turn

 private:
  struct Own {
    void** objects;
    std::uint32_t* sizes;
  };

  static std::uint64_t held(const Options& options) {
    if (options.mode == Mode::kRandom) return static_cast<std::uint64_t>(options.slots);
    return static_cast<std::uint64_t>(options.depth ? options.depth : *std::max_element(kDepths, std::end(kDepths)));
  }

  // As many whole rounds as make the objects asked for, at least one.
  template <class Operations>
  void up_and_down(const Own& own, std::uint64_t depth, Operations& heap) {
    const std::uint64_t rounds = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(options_.objects) / depth);
    const auto size = static_cast<std::uint64_t>(options_.size);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (std::uint64_t i = 0; i < depth; ++i) {
        own.objects[i] = heap.allocate(size, i);
        kit::write_all(own.objects[i], size, i);
      }
      for (std::uint64_t i = 0; i < depth / 2; ++i) heap.release(own.objects[i], i);
      for (std::uint64_t i = depth; i > depth / 2; --i) heap.release(own.objects[i - 1], i - 1);
    }
  }

  template <class Operations>
  void replace(const Own& own, Random random, Operations& heap) {
    const std::uint64_t slots = held(options_);
    for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(options_.objects); ++step) {
      const std::uint64_t slot = random.below(slots);
      heap.release(own.objects[slot], slot);
      own.objects[slot] = make(heap, own.sizes[step % kSizes], slot);
    }
  }

  template <class Operations>
  void* make(Operations& heap, std::uint32_t size, std::uint64_t object) {
    void* const made = heap.allocate(size, object);
    *static_cast<std::uint8_t*>(made) = static_cast<std::uint8_t>(object);
    return made;
  }

  const Options& options_;
};

}  // namespace heapyard::pairs
