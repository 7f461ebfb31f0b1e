// One large reservation of address space from which virtual spans of equal size are cut.
//
// Idea: scalloc's arena (OOPSLA 2015, section 3.1). Every virtual span has the same power of two of bytes and starts
// at a multiple of it, so a block's span is found by masking its address, and a span that becomes free can serve any
// size class. Memory is backed when it is touched. Where the system charges for what is not touched (overcommit off,
// RLIMIT_DATA), spans are charged one by one as they are used; where it grants less address space (RLIMIT_AS), less
// is reserved, down to 64 MiB, and at most half, for mappings need the rest. HEAPYARD_VERBOSE=1 says so. When it is
// used up, spans run out like memory. Cost: allocate O(1), one atomic addition; a system call more each time where
// spans are charged. Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/os/notice.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Bytes: of a span. Colours: places at which a span may begin, kColour apart, each span its own by its address; a
// power of two. What begins at multiples of 2 MiB meets in the same few lines of every cache. Most: bytes to reserve
// where the system grants them.
template <class Pages, std::size_t Bytes = std::size_t{2} << 20, unsigned Colours = 1,
          std::size_t Most = std::size_t{32} << 40>
class VirtualSpans {
 public:
  static constexpr std::size_t kSpan = Bytes, kColour = 128, kColouring = (Colours - 1) * kColour;
  static constexpr std::size_t kLeast = std::size_t{64} << 20;

  constexpr VirtualSpans() = default;

  // By one thread, before the first allocate().
  void reserve() {
    if (bytes_ != 0) return;  // by the parent, in the middle of whose start this process was forked
    if (void* memory = Pages::map_aligned(Most, kSpan)) {
      start_ = reinterpret_cast<std::uintptr_t>(memory);
      bytes_ = Most;
      return;
    }
    charged_ = true;
    for (std::size_t bytes = Most; bytes >= kLeast; bytes /= 2) {  // bound: 20 halvings
      // Twice as much must be there: large blocks and the program's own mappings need the rest.
      void* memory = Pages::reserve(2 * bytes, kSpan);
      if (memory == nullptr) continue;
      Pages::unmap(static_cast<char*>(memory) + bytes, bytes);
      start_ = reinterpret_cast<std::uintptr_t>(memory);
      bytes_ = bytes;
      break;
    }
    if (!os::verbose()) return;
    if (bytes_ < Most)
      os::notice("reserved ", bytes_ >> 20, " of address space, for no more is granted; small blocks must fit there");
    else
      os::notice("reserved ", bytes_ >> 20,
                 " of address space; memory is charged span by span, for not all is granted");
  }

  // Zeroed unless it was used before, to be committed; null when there are none left.
  void* allocate() {
    const std::size_t at = cut_.fetch_add(kSpan, std::memory_order_relaxed);
    if (at < bytes_) return reinterpret_cast<void*>(begin_of(start_ + at));
    cut_.fetch_sub(kSpan, std::memory_order_relaxed);
    return nullptr;
  }

  // Where the span begins that `inside` is an address of.
  static std::uintptr_t begin_of(std::uintptr_t inside) {
    constexpr std::uintptr_t kMask = kSpan - 1;
    return (inside & ~kMask) + (inside / (kSpan / kColour) & kColouring);
  }

  // Before [memory, memory + bytes) of a span is touched; false when the system has no memory for it.
  bool commit(void* memory, std::size_t bytes) {
    if (!charged_) return true;
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(memory), in_page = at & (os::page_bytes() - 1);
    return Pages::commit(reinterpret_cast<void*>(at - in_page), in_page + bytes);
  }

  // The memory goes back, to be committed again before it is touched. Bounds are pages.
  void give_back(void* memory, std::size_t bytes) {
    Pages::decommit(memory, bytes);
    if (charged_) Pages::uncommit(memory, bytes);
  }

  bool contains(const void* block) const { return reinterpret_cast<std::uintptr_t>(block) - start_ < bytes_; }
  std::uintptr_t start() const { return start_; }
  // Bytes from start() on that were cut.
  std::size_t cut() const { return std::min(cut_.load(std::memory_order_relaxed), bytes_); }

 private:
  std::uintptr_t start_ = 0;
  std::size_t bytes_ = 0;
  bool charged_ = false;  // by the system, for memory that is not touched
  std::atomic<std::size_t> cut_{0};
};

}  // namespace heapyard
