// One large reservation of address space from which virtual spans of equal size are cut.
//
// Idea: scalloc's arena (OOPSLA 2015, section 3.1). Every virtual span has 2 MiB and starts at a multiple of 2 MiB,
// so a block's span is found by masking its address, and a span that becomes free can serve any size class. Memory
// is backed when it is touched. Where the system grants less (RLIMIT_AS, overcommit off), less is reserved, down to
// 64 MiB; when it is used up, spans run out like memory. Cost: allocate O(1), one atomic addition. Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/os/pages.hpp"

namespace heapyard {

// Most: bytes to reserve where the system grants them.
template <class Pages, std::size_t Most = std::size_t{32} << 40>
class VirtualSpans {
 public:
  static constexpr std::size_t kSpan = std::size_t{2} << 20;
  static constexpr std::size_t kLeast = std::size_t{64} << 20;

  constexpr VirtualSpans() = default;

  // By one thread, before the first allocate().
  void reserve() {
    if (bytes_ != 0) return;  // by the parent, in the middle of whose start this process was forked
    for (std::size_t bytes = Most; bytes >= kLeast; bytes /= 2) {  // bound: 20 halvings
      if (void* memory = Pages::map_aligned(bytes, kSpan)) {
        start_ = reinterpret_cast<std::uintptr_t>(memory);
        bytes_ = bytes;
        return;
      }
    }
  }

  // Zeroed unless it was used before; null when there are none left.
  void* allocate() {
    const std::size_t at = cut_.fetch_add(kSpan, std::memory_order_relaxed);
    if (at < bytes_) return reinterpret_cast<void*>(start_ + at);
    cut_.fetch_sub(kSpan, std::memory_order_relaxed);
    return nullptr;
  }

  bool contains(const void* block) const { return reinterpret_cast<std::uintptr_t>(block) - start_ < bytes_; }
  std::uintptr_t start() const { return start_; }
  std::size_t cut() const { return cut_.load(std::memory_order_relaxed); }

 private:
  std::uintptr_t start_ = 0;
  std::size_t bytes_ = 0;
  std::atomic<std::size_t> cut_{0};
};

}  // namespace heapyard
