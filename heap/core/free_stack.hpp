// SPDX-License-Identifier: Apache-2.0
// Blocks put aside by threads that may not enter the heap; a thread that may enter empties it a few at a time.
//
// Idea: pushes are lock-free onto a shared list. The one taker swaps the whole list out and works through it over
// several calls. So nothing can be popped twice, and no tag against ABA is needed. Cost: push O(1) apart from retries;
// take O(1). Threads: any; signal handlers: push only.
#pragma once

#include <atomic>

namespace heapyard::core {

class FreeStack {
 public:
  constexpr FreeStack() = default;

  // `block` has room for a pointer, which is overwritten.
  void push(void* block) {
    auto* item = static_cast<Item*>(block);
    item->next = pushed_.load(std::memory_order_relaxed);
    // Bound: each turn is a push of another thread, or a work_off().
    while (!pushed_.compare_exchange_weak(item->next, item, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

  bool empty() const {
    return pushed_.load(std::memory_order_relaxed) == nullptr && taken_.load(std::memory_order_relaxed) == nullptr;
  }

  // Calls free(block) for at most `most` blocks; returns at once when another thread is at it.
  template <class Free>
  void work_off(unsigned most, Free free) {
    if (empty() || busy_.exchange(true, std::memory_order_acquire)) return;
    Item* item = taken_.load(std::memory_order_relaxed);
    for (; most > 0; --most) {
      if (item == nullptr) item = pushed_.exchange(nullptr, std::memory_order_acquire);
      if (item == nullptr) break;
      Item* next = item->next;
      free(static_cast<void*>(item));
      item = next;
    }
    taken_.store(item, std::memory_order_relaxed);
    busy_.store(false, std::memory_order_release);
  }

 private:
  struct Item {
    Item* next;
  };
  std::atomic<Item*> pushed_{nullptr};
  std::atomic<Item*> taken_{nullptr};  // written by the taker only
  std::atomic<bool> busy_{false};
};

}  // namespace heapyard::core
