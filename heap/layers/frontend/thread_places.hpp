// SPDX-License-Identifier: Apache-2.0
// How many threads at a time have a front end of their own.
//
// Idea: a front end holds a span per class that its thread uses. With thousands of threads that is most of the memory,
// and none of them can be busy for long. When kMost threads have one, further threads do without, until others end
// (layers/tight_blocks.hpp). Cost: an atomic addition for each thread's start and end. Fork: the child releases the
// places of threads that it does not have.
#pragma once

#include <atomic>

namespace heapyard {

class ThreadPlaces {
 public:
  static constexpr unsigned kMost = 1024;

  constexpr ThreadPlaces() = default;

  bool take() {
    if (taken_.fetch_add(1, std::memory_order_relaxed) < kMost) return true;
    leave();
    return false;
  }
  void leave() { taken_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<unsigned> taken_{0};
};

}  // namespace heapyard
