// SPDX-License-Identifier: Apache-2.0
// Rounds of allocating many objects of one size and freeing them in the order of allocation, each thread for itself.
//
// After threadtest (Berger et al., "Hoard", ASPLOS 2000): per round a thread allocates all of its
// objects, writes each whole, and frees them; thread-local caches overrun. Strong scaling: the objects are shared out
// among the threads, the remainder too, which the original drops. Cost O(iterations x objects) calls.
#pragma once

#include <cstdint>

#include "../kit/session.hpp"

namespace heapyard::threadtest {

struct Options {
  kit::CommonOptions common;
  std::int64_t iterations = 500;
  std::int64_t objects = 30'000;  // of all threads together
  std::int64_t work = 0;          // rounds of a busy loop per call
  std::int64_t size = 64;         // bytes
};

inline void work_for(std::int64_t rounds) {
  if (rounds == 0) return;  // not even the counter's trip to memory
  volatile std::int64_t left = rounds;
  while (left > 0) left = left - 1;
}

class Workload {
 public:
  explicit Workload(const Options& options) : options_(options) {}

  std::uint64_t objects_of(std::size_t thread) const {
    return kit::share(static_cast<std::uint64_t>(options_.objects), static_cast<std::size_t>(options_.common.threads),
                      thread);
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    const std::uint64_t count = objects_of(worker.index), size = static_cast<std::uint64_t>(options_.size);
    auto** const slots = worker.table<void*>();
    for (std::int64_t round = 0; round < options_.iterations; ++round) {
      for (std::uint64_t i = 0; i < count; ++i) {
        work_for(options_.work);
        slots[i] = heap.allocate(size, i);
        kit::write_all(slots[i], size, i);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        work_for(options_.work);
        heap.release(slots[i], i);
      }
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

 private:
  const Options& options_;
};

}  // namespace heapyard::threadtest
