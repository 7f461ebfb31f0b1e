// SPDX-License-Identifier: Apache-2.0
// Spans at multiples of their size in one window of address space, of which only what is used is mapped.
//
// Idea: scalloc's arena (OOPSLA 2015, section 3.1). Every virtual span has the same power of two of bytes and starts at
// a multiple of it. So a block's span is found by masking its address, and a span that becomes free can serve any size
// class. The paper reserves the arena. Ours is a window that is known to be free (placed_window.hpp): the used part of
// each virtual span is mapped at its place, and the rest is a hole. So nothing that counts, locks, dumps or emulates
// address space pays for the arena.
// A large heap cannot have a mapping of its own for each span. Beyond kApart spans the whole of each is mapped, and
// neighbours are one mapping to the system. Under a limit on address space, spans take at most a share of it; the heap
// packs the rest tighter (layers/tight_blocks.hpp), and HEAPYARD_VERBOSE=1 says so.
// Cost: O(1) and one system call for each; two more, or none, where there is a limit. Threads: any.
//
// INVARIANT: no block that is not of a span lies in the window (backend/outside_spans.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/layers/backend/placed_window.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/os/notice.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Bytes: of a span. Colours: places at which a span may begin, kColour apart, each span its own by its address; a
// power of two. What begins at multiples of 2 MiB meets in the same few lines of every cache. Most: bytes of the
// window.
template <PlacedPageSource Pages, std::size_t Bytes = std::size_t{2} << 20, unsigned Colours = 1,
          std::size_t Most = std::size_t{32} << 40>
class VirtualSpans {
 public:
  static constexpr std::size_t kSpan = Bytes, kColour = 128, kColouring = (Colours - 1) * kColour;
  static constexpr std::size_t kShare = 16;      // of a limit: one part in so many is for spans
  static constexpr std::size_t kApart = 16'384;  // spans that are mappings of their own: a quarter of Linux's default

  constexpr VirtualSpans() = default;

  // By one thread, before the first allocate().
  void reserve() {
    if (window_.bytes() != 0) return;  // by the parent, in the middle of whose start this process was forked
    charged_ = Pages::charges();
    window_.find(Most, Most, kSpan);
    const std::size_t limit = Pages::limit();
    if (limit != SIZE_MAX && os::verbose())
      os::notice("spans take up to ", (limit / kShare) >> 20, ", for there is a limit; other blocks are packed tight");
  }

  // A span whose first `bytes` are there, zeroed; null when it cannot be had. `there`: how many are there.
  void* allocate(std::size_t bytes, std::size_t& there) {
    for (unsigned tries = 0; tries < kTries && may_grow(bytes); ++tries) {
      const std::size_t at = cut_.fetch_add(kSpan, std::memory_order_relaxed);
      if (at >= window_.bytes()) {
        cut_.fetch_sub(kSpan, std::memory_order_relaxed);
        return nullptr;
      }
      const std::uintptr_t begin = begin_of(window_.start() + at);
      const bool apart = at / kSpan < kApart || charged_ || limited_.load(std::memory_order_relaxed) ||
                         locked_.load(std::memory_order_relaxed);
      const std::uintptr_t used = page_end(begin + bytes);
      std::uintptr_t end = apart ? used : window_.start() + at + kSpan;
      const os::Placed placed = map(page_of(begin), end);
      if (placed == os::Placed::done) {
        // Who locks what is mapped in future (mlockall) had it filled with memory.
        if (end != used && Pages::filled(reinterpret_cast<void*>(end - os::page_bytes()))) {
          locked_.store(true, std::memory_order_relaxed);
          if (unmap(used, end)) end = used;
        }
        there = end - begin;
        return reinterpret_cast<void*>(begin);
      }
      if (placed == os::Placed::occupied) continue;  // by a mapping of the program's: the next one
      // The place stays for the next who asks, unless another has come meanwhile: then address space is lost.
      std::size_t behind = at + kSpan;
      cut_.compare_exchange_strong(behind, at, std::memory_order_relaxed);
      break;
    }
    return nullptr;
  }

  // Whether the first `bytes` of a span are there, of which `there` were. They are zeroed.
  bool extend(void* span, std::size_t bytes, std::size_t& there) {
    if (bytes <= there) return true;
    const auto begin = reinterpret_cast<std::uintptr_t>(span);
    const std::uintptr_t from = begin + there, end = page_end(begin + bytes);
    if (!may_grow(end - from) || map(from, end) != os::Placed::done) return false;
    there = end - begin;
    return true;
  }

  // The memory of a span behind its first page goes back to the system; address space too, if that is short or `all`.
  void give_back(void* span, std::size_t& there, bool all) {
    const auto begin = reinterpret_cast<std::uintptr_t>(span);
    const std::uintptr_t from = page_of(begin) + os::page_bytes(), end = begin + there;
    if (from >= end) return;
    if ((all || charged_ || limited_.load(std::memory_order_relaxed)) && unmap(from, end))
      there = from - begin;
    else
      Pages::decommit(reinterpret_cast<void*>(from), end - from);
  }

  // Where the span begins that `inside` is an address of.
  static std::uintptr_t begin_of(std::uintptr_t inside) {
    constexpr std::uintptr_t kMask = kSpan - 1;
    return (inside & ~kMask) + (inside / (kSpan / kColour) & kColouring);
  }

  bool contains(const void* block) const { return window_.contains(block); }
  bool meets(const void* memory, std::size_t bytes) const { return window_.meets(memory, bytes); }
  std::uintptr_t start() const { return window_.start(); }
  std::uintptr_t end() const { return window_.end(); }

 private:
  static constexpr unsigned kTries = 8;     // places that mappings of the program's may lie at, one after the other
  static constexpr unsigned kDenied = 256;  // requests that go without a look after one was refused

  static std::uintptr_t page_of(std::uintptr_t at) { return at & ~(os::page_bytes() - 1); }
  static std::uintptr_t page_end(std::uintptr_t at) { return os::round_up(at, os::page_bytes()); }

  // The one place where spans get address space.
  os::Placed map(std::uintptr_t from, std::uintptr_t end) {
    const os::Placed placed = window_.map(from, end);
    if (placed == os::Placed::done) mapped_.fetch_add(end - from, std::memory_order_relaxed);
    if (placed == os::Placed::refused) denied_.store(kDenied, std::memory_order_relaxed);
    return placed;
  }

  bool unmap(std::uintptr_t from, std::uintptr_t end) {
    if (!window_.unmap(from, end)) return false;
    mapped_.fetch_sub(end - from, std::memory_order_relaxed);
    return true;
  }

  // Whether a limit leaves room: one may be set at any time, by others too.
  bool may_grow(std::size_t bytes) {
    if (const unsigned denied = denied_.load(std::memory_order_relaxed)) {
      denied_.store(denied - 1, std::memory_order_relaxed);  // other threads' steps may get lost: it is but a pause
      return false;
    }
    const std::size_t limit = Pages::limit();
    limited_.store(limit != SIZE_MAX, std::memory_order_relaxed);
    if (limit == SIZE_MAX || mapped_.load(std::memory_order_relaxed) + bytes <= limit / kShare) return true;
    denied_.store(kDenied, std::memory_order_relaxed);
    return false;
  }

  PlacedWindow<Pages> window_;
  bool charged_ = false;              // by the system, for memory that is not touched
  std::atomic<bool> limited_{false};  // as last seen
  std::atomic<bool> locked_{false};   // what is mapped is memory at once
  std::atomic<unsigned> denied_{0};
  std::atomic<std::size_t> cut_{0};     // bytes of the window
  std::atomic<std::size_t> mapped_{0};  // bytes of spans
};

}  // namespace heapyard
