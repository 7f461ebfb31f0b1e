// SPDX-License-Identifier: Apache-2.0
// How much memory a heap may have at most.
//
// Idea: two parts make it up: pages of the window that are in use, or free and dirty; and mappings outside of it. The
// owner of the pages asks whether more fit before it takes them. Pages that map something outside ask too, and count
// it. Tables of the window do not count. Cost: O(1). Threads: any. Two that ask at the same moment may both be served
// where there is room for one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"

namespace heapyard {

class MemoryLimit {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  constexpr MemoryLimit() = default;

  // Bytes; kNone: as much as the system gives.
  void set(std::size_t bytes) { most_.store(bytes, std::memory_order_relaxed); }
  std::size_t most() const { return most_.load(std::memory_order_relaxed); }
  bool set() const { return most() != kNone; }

  // Bytes that are left for pages of the window when so many of them are in use.
  std::size_t room(std::size_t used) const {
    if (!set()) [[likely]]
      return kNone;
    const std::size_t taken = used + outside();
    return taken < most() ? most() - taken : 0;
  }

  // Of mappings outside. `used`: bytes of the window.
  std::size_t outside() const { return outside_.load(std::memory_order_relaxed); }
  bool claim(std::size_t bytes, std::size_t used) {
    if (bytes > room(used)) return false;
    outside_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  void give_back(std::size_t bytes) { outside_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> most_{kNone}, outside_{0};
};

// Pages outside of the window, as far as the limit allows. Owner: has the runs of the window as its static `runs`.
template <MovingPageSource Pages, class Owner>
struct BoundedPages : Pages {
  static void* map(std::size_t bytes) {
    return claimed(bytes, [&] { return Pages::map(bytes); });
  }
  static bool unmap(void* memory, std::size_t bytes) {
    if (!Pages::unmap(memory, bytes)) return false;
    Owner::runs.budget().limit().give_back(bytes);
    return true;
  }
  static void* remap(void* memory, std::size_t bytes, std::size_t larger) {
    return claimed(larger - bytes, [&] { return Pages::remap(memory, bytes, larger); });
  }

 private:
  template <class Work>
  static void* claimed(std::size_t bytes, Work work) {
    if (!Owner::runs.budget().limit().claim(bytes, Owner::runs.used_bytes())) return nullptr;
    if (Owner::runs.budget().limit().set()) Owner::runs.settle();  // free pages make room for it
    void* memory = work();
    if (memory == nullptr) Owner::runs.budget().limit().give_back(bytes);
    return memory;
  }
};

}  // namespace heapyard
