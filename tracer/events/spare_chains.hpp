// SPDX-License-Identifier: Apache-2.0
// Where the memory comes from in which threads remember chains: of threads that have ended, or else a mapping.
//
// Idea: a mapping that goes interrupts every processor on which the program runs, and a new one faults page by page. A
// server that begins a thread for each request would pay that each time. So a few are kept. Cost: O(kSpare). Threads:
// any. Forks: a child has those that were spare, and leaks those of the threads it has not.
#pragma once

#include <atomic>

#include "base/mapping.hpp"
#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

class SpareChains {
 public:
  // Nothing is remembered in it; null without memory.
  ChainMemory* take() {
    for (std::atomic<ChainMemory*>& spare : spares_) {
      if (spare.load(std::memory_order_relaxed) == nullptr) continue;
      if (ChainMemory* memory = spare.exchange(nullptr, std::memory_order_acquire)) {
        memory->forget();
        return memory;
      }
    }
    return static_cast<ChainMemory*>(map_private(sizeof(ChainMemory)));
  }

  void give(ChainMemory* memory) {
    for (std::atomic<ChainMemory*>& spare : spares_) {
      ChainMemory* none = nullptr;
      if (spare.compare_exchange_strong(none, memory, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    munmap(memory, sizeof *memory);
  }

 private:
  static constexpr unsigned kSpare = 4;
  std::atomic<ChainMemory*> spares_[kSpare] = {};
};

inline constinit SpareChains spare_chains;

}  // namespace heapyard::tracer
