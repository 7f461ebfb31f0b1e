// SPDX-License-Identifier: Apache-2.0
// Threads write to objects of their own that may lie in one cache line with those of others.
//
// After cache-thrash (active) and cache-scratch (passive) of Hoard (Berger et al., ASPLOS 2000).
// Each thread allocates an object, writes and reads each byte of it many times, frees it,
// again and again. Active: does the allocator give parts of one line to two threads at once? Passive: one thread first
// allocates an object for each thread, which frees it: does the allocator hand the neighbours out again? The
// repetitions are shared out among the threads. Placement `padded` gives each object lines of its own: the baseline
// without any false sharing. With an optimising compiler the original programs contain neither the allocation nor the
// store. Cost O(iterations) calls, O(iterations x repetitions x size / threads) stores a thread.
// Bookkeeping: 8 bytes for each of the first iterations whose lines are compared.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../kit/session.hpp"

namespace heapyard::false_sharing {

enum class Mode { kActive, kPassive };
enum class Placement { kHeap, kPadded };

struct Options {
  kit::CommonOptions common;
  Mode mode = Mode::kActive;
  Placement placement = Placement::kHeap;
  std::int64_t iterations = 1000;
  std::int64_t size = 8;               // bytes
  std::int64_t repetitions = 100'000;  // of writing an object, all threads together
};

class Workload {
 public:
  static constexpr std::uint64_t kCompared = 4096;  // iterations

  Workload(const Options& options, kit::Session& session) : options_(options), session_(session) {
    for (std::size_t i = 0; i < session.threads(); ++i) session.worker(i).make_table<Own>(1);
  }
  static constexpr std::size_t bytes_per_worker() { return sizeof(Own); }

  // Numbers of objects: the one handed over, then one for all iterations.
  template <class Operations>
  void before(kit::Worker& worker, Operations& heap) {
    if (options_.mode == Mode::kActive || worker.index != 0) return;
    for (std::size_t i = 0; i < session_.threads(); ++i)
      session_.worker(i).template table<Own>()->given = make(heap, i);
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    if (options_.mode == Mode::kPassive) heap.release(own.given, worker.index);
    const std::uint64_t repetitions =
        kit::share(static_cast<std::uint64_t>(options_.repetitions), session_.threads(), worker.index);
    const auto size = static_cast<std::uint64_t>(options_.size);
    const std::uint64_t number = session_.threads() + worker.index;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < options_.iterations; ++i) {
      void* const object = make(heap, number);
      if (static_cast<std::uint64_t>(i) < kCompared)
        own.addresses[own.noted++] = reinterpret_cast<std::uintptr_t>(object);
      auto* const bytes = static_cast<volatile std::uint8_t*>(object);
      for (std::uint64_t repetition = 0; repetition < repetitions; ++repetition) {
        for (std::uint64_t k = 0; k < size; ++k) {
          bytes[k] = static_cast<std::uint8_t>(k);
          sum += bytes[k];
        }
      }
      heap.release(object, number);
    }
    heap.saw(sum);
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

  std::uint64_t stores() const {
    return static_cast<std::uint64_t>(options_.iterations) * static_cast<std::uint64_t>(options_.repetitions) *
           static_cast<std::uint64_t>(options_.size);
  }

  // Share of the objects that had a cache line in common with another thread's object of the same iteration.
  // O(iterations x threads log threads); changes the tables.
  double line_sharing() {
    std::uint64_t shared = 0, compared = 0;
    kit::Arena arena;
    arena.reserve(session_.threads() * sizeof(std::uint64_t));
    auto* const starts = arena.take<std::uint64_t>(session_.threads());
    const std::uint64_t iterations = session_.worker(0).table<Own>()->noted;
    for (std::uint64_t i = 0; i < iterations; ++i) {
      const std::size_t n = session_.threads();
      for (std::size_t t = 0; t < n; ++t) starts[t] = session_.worker(t).table<Own>()->addresses[i];
      std::sort(starts, starts + n);
      const auto touch = [&](std::size_t before, std::size_t after) {
        return last_line(starts[before]) >= starts[after] / kit::kCacheLine;
      };
      for (std::size_t t = 0; t < n; ++t) shared += (t > 0 && touch(t - 1, t)) || (t + 1 < n && touch(t, t + 1));
      compared += n;
    }
    return compared ? static_cast<double>(shared) / static_cast<double>(compared) : 0;
  }

 private:
  struct Own {
    void* given;  // passive mode
    std::uint64_t noted;
    std::uint64_t addresses[kCompared];
  };

  template <class Operations>
  void* make(Operations& heap, std::uint64_t number) {
    const auto size = static_cast<std::uint64_t>(options_.size);
    if (options_.placement == Placement::kHeap) return heap.allocate(size, number);
    return heap.allocate_padded(size, number);
  }

  std::uint64_t last_line(std::uint64_t start) const {
    return (start + static_cast<std::uint64_t>(options_.size) - 1) / kit::kCacheLine;
  }

  const Options& options_;
  kit::Session& session_;
};

}  // namespace heapyard::false_sharing
