// SPDX-License-Identifier: Apache-2.0
// A server: each thread replaces random objects of its slice, then hands the slice to a successor and ends.
//
// After larson (Larson and Krishnan, "Memory allocation for long-running server applications", ISMM 1998). One thread
// fills all slots, permutes them and replaces at random. Then every slice has a chain of threads. Each thread makes
// `rounds` x `chunks` replacements and is followed by a new thread. So objects are freed by threads that did not make
// them, and thread after thread ends while its objects live on. The next thread starts when the one before has been
// joined; the original leaves a stack behind for each. Work is a number of generations, or a time on request.
// Cost O(generations x rounds x chunks) calls a thread. Bookkeeping: 8 bytes per slot.
#pragma once

#include <cstdint>
#include <utility>

#include "../kit/session.hpp"
#include "../kit/successors.hpp"

namespace heapyard::larson {

struct Options {
  kit::CommonOptions common;
  std::int64_t seconds = 0;      // 0: work is fixed by the generations
  std::int64_t min_size = 8;     // bytes
  std::int64_t max_size = 1000;  // bytes, included
  std::int64_t chunks = 5000;    // slots of a thread
  std::int64_t rounds = 100;     // replacements of a thread's life, in multiples of the slots
  std::int64_t generations = 10;
};

inline constexpr std::uint64_t kWarmUpStream = std::uint64_t{1} << 32;  // a stream of random numbers no worker has
inline constexpr std::uint64_t kWarmUpReplacements = 4;                 // per slot

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options), session_(session) {
    for (std::size_t i = 0; i < session.threads(); ++i) session.worker(i).make_table<void*>(chunks());
  }

  template <class Operations>
  void before(kit::Worker& worker, Operations& heap) {
    if (worker.index != 0) return;
    Random random(static_cast<std::uint64_t>(options_.common.seed), kWarmUpStream);
    const std::uint64_t all = chunks() * session_.threads();
    for (std::uint64_t i = 0; i < all; ++i) slot(i) = make(heap, random, i);
    for (std::uint64_t i = all - 1; i > 0; --i) std::swap(slot(i), slot(random.below(i + 1)));
    for (std::uint64_t i = 0; i < kWarmUpReplacements * all; ++i) {
      const std::uint64_t object = random.below(all);
      replace(heap, random, slot(object), object);
    }
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    const std::uint64_t seconds = static_cast<std::uint64_t>(options_.seconds);
    const std::uint64_t deadline = seconds ? monotonic_ns() + seconds * 1'000'000'000u : 0;
    bool late = false;
    for (std::int64_t made = 0; deadline ? !late : made < options_.generations; ++made)
      successors_.run(worker, [&] { late = live(worker, heap, deadline); });
  }

  // What an object holds is looked at here, off the clock.
  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    for (std::uint64_t i = 0; i < chunks(); ++i) {
      const std::uint64_t object = worker.index * chunks() + i;
      heap.saw(*static_cast<const std::uint8_t*>(slot(object)));
      heap.release(slot(object), object);
    }
  }

 private:
  static constexpr std::uint64_t kStepsPerLook = 256;  // at the clock, when there is a deadline

  // One thread of a chain; whether it has met the deadline (ns; 0: none).
  template <class Operations>
  bool live(kit::Worker& worker, Operations& heap, std::uint64_t deadline) {
    const std::uint64_t first = worker.index * chunks();
    const std::uint64_t steps = static_cast<std::uint64_t>(options_.rounds) * chunks();
    void** const slots = worker.table<void*>();
    Random random = worker.random;
    bool late = false;
    for (std::uint64_t step = 0; step < steps && !late; ++step) {
      const std::uint64_t chunk = random.below(chunks());
      replace(heap, random, slots[chunk], first + chunk);
      if (deadline && step % kStepsPerLook == 0) late = monotonic_ns() >= deadline;
    }
    worker.random = random;
    return late;
  }

  template <class Operations>
  void replace(Operations& heap, Random& random, void*& place, std::uint64_t object) {
    heap.release(place, object);
    place = make(heap, random, object);
  }

  // A new object: its first byte is written and read, its second written.
  template <class Operations>
  void* make(Operations& heap, Random& random, std::uint64_t object) {
    const std::uint64_t size =
        random.between(static_cast<std::uint64_t>(options_.min_size), static_cast<std::uint64_t>(options_.max_size));
    void* const made = heap.allocate(size, object);
    auto* const bytes = static_cast<volatile std::uint8_t*>(made);
    bytes[0] = static_cast<std::uint8_t>(object);
    const std::uint8_t read = bytes[0];
    if (size > 1) bytes[1] = read;
    return made;
  }

  std::uint64_t chunks() const { return static_cast<std::uint64_t>(options_.chunks); }
  void*& slot(std::uint64_t object) { return session_.worker(object / chunks()).table<void*>()[object % chunks()]; }

  const Options& options_;
  kit::Session& session_;
  kit::Successors successors_;
};

}  // namespace heapyard::larson
