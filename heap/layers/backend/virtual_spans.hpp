// SPDX-License-Identifier: Apache-2.0
// Spans at multiples of their size in one window of address space, of which only what is used is mapped.
//
// Idea: scalloc's arena (OOPSLA 2015, section 3.1). Every virtual span has the same power of two of bytes and starts at
// a multiple of it. So a block's span is found by masking its address, and a span that becomes free can serve any size
// class. The paper reserves the arena. Ours is a window that is known to be free (placed_window.hpp): the used part of
// each virtual span is mapped at its place, and the rest is a hole. So nothing that counts, locks, dumps or emulates
// address space pays for the arena.
// A large heap cannot have a mapping of its own for each span. Beyond kApart spans the whole of each is mapped, and
// neighbours are one mapping to the system. Under a limit on address space, or of the memory of a control group, spans
// take at most a share of it; the heap packs the rest tighter (layers/tight_blocks.hpp), and HEAPYARD_VERBOSE=1 says
// so. Cost: O(1) and one system call for each; two more, or none, where there is a limit. The group is asked whenever
// spans have doubled, and where they have their share. Threads: any.
//
// INVARIANT: no block that is not of a span lies in the window (backend/outside_spans.hpp).
#pragma once

#include <algorithm>
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
  static constexpr std::size_t kShare = 16;      // of a limit on address space: one part in so many is for spans
  static constexpr std::size_t kGroupShare = 2;  // the same of a group's limit: there, only what is used counts
  static constexpr std::size_t kSparing = 4;     // of that share, beyond which spans are made for what fills them
  static constexpr std::size_t kUnasked = std::size_t{16} << 20;  // bytes of spans up to which no group is asked
  static constexpr std::size_t kApart = 16'384;  // spans that are mappings of their own: a quarter of Linux's default

  constexpr VirtualSpans() = default;

  // By one thread, before the first allocate().
  void reserve() {
    if (window_.bytes() != 0) return;  // by the parent, in the middle of whose start this process was forked
    charged_ = Pages::charges();
    verbose_ = os::verbose();
    window_.find(Most, Most, kSpan);
    const std::size_t limit = Pages::limit();
    if (limit != SIZE_MAX && verbose_)
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
        take(used - begin + (kSpan >= kOfPageTable ? os::page_bytes() : 0));
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
    take(end - from);
    return true;
  }

  // The memory of a span behind its first page goes back to the system; address space too, if that is short or `all`.
  void give_back(void* span, std::size_t& there, bool all) {
    const auto begin = reinterpret_cast<std::uintptr_t>(span);
    const std::uintptr_t from = page_of(begin) + os::page_bytes(), end = begin + there;
    if (from >= end) return;
    if ((all || charged_ || limited_.load(std::memory_order_relaxed)) && unmap(from, end)) {
      there = from - begin;
      // What was mapped whole was counted in part.
      if (begin - window_.start() < kApart * kSpan || end % kSpan != 0)
        used_.fetch_sub(end - from, std::memory_order_relaxed);
    } else
      Pages::decommit(reinterpret_cast<void*>(from), end - from);
  }

  // Where the span begins that `inside` is an address of.
  static std::uintptr_t begin_of(std::uintptr_t inside) {
    constexpr std::uintptr_t kMask = kSpan - 1;
    return (inside & ~kMask) + (inside / (kSpan / kColour) & kColouring);
  }

  // Whether the memory of the control group is limited, as last seen: then what lies idle may be missed elsewhere.
  bool in_group() const { return share_.load(std::memory_order_relaxed) != kNoShare; }

  // Idle bytes beyond which they are many there: a sixteenth of what the group may have.
  std::size_t few() const { return share_.load(std::memory_order_relaxed) * kGroupShare / 16; }

  // Whether spans that would be filled badly had better not be made there: the rest of their share is for others.
  bool sparing() const {
    return used_.load(std::memory_order_relaxed) > share_.load(std::memory_order_relaxed) / kSparing;
  }

  // Whether spans took memory in such a group since this was last asked.
  bool took_from_group() {
    if (!took_.load(std::memory_order_relaxed)) [[likely]]
      return false;
    took_.store(false, std::memory_order_relaxed);
    return in_group();
  }

  bool contains(const void* block) const { return window_.contains(block); }
  bool meets(const void* memory, std::size_t bytes) const { return window_.meets(memory, bytes); }
  std::uintptr_t start() const { return window_.start(); }
  std::uintptr_t end() const { return window_.end(); }

 private:
  static constexpr unsigned kTries = 8;     // places that mappings of the program's may lie at, one after the other
  static constexpr unsigned kDenied = 256;  // requests that go without a look after one was refused

  static constexpr std::size_t kOfPageTable = std::size_t{2} << 20;  // bytes: a larger span has one of its own
  static constexpr std::size_t kMostLimit = std::size_t{1} << 60;    // version 1 says a little less than 2^63 for none
  static constexpr std::size_t kNoShare = SIZE_MAX / kGroupShare;    // what no limit at all leaves

  void take(std::size_t bytes) {
    used_.fetch_add(bytes, std::memory_order_relaxed);
    took_.store(true, std::memory_order_relaxed);
  }

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
    if ((limit == SIZE_MAX || mapped_.load(std::memory_order_relaxed) + bytes <= limit / kShare) &&
        group_leaves_room(bytes)) {
      return true;
    }
    denied_.store(kDenied, std::memory_order_relaxed);
    return false;
  }

  // What was given back and stays mapped counts, for it may be used again unasked.
  bool group_leaves_room(std::size_t bytes) {
    const std::size_t used = used_.load(std::memory_order_relaxed) + bytes;
    if (used <= unasked_.load(std::memory_order_relaxed)) return true;
    const std::size_t limit = Pages::group_limit(), share = limit > kMostLimit ? kNoShare : limit / kGroupShare;
    share_.store(share, std::memory_order_relaxed);
    unasked_.store(std::min(2 * used, share), std::memory_order_relaxed);
    if (used <= share) return true;
    if (verbose_ && !told_.exchange(true, std::memory_order_relaxed))
      os::notice("spans have ", used >> 20, ", half of what the control group may have; other blocks are packed tight");
    return false;
  }

  PlacedWindow<Pages> window_;
  bool charged_ = false;  // by the system, for memory that is not touched
  bool verbose_ = false;
  std::atomic<bool> told_{false};     // that the group leaves no room
  std::atomic<bool> limited_{false};  // as last seen
  std::atomic<bool> locked_{false};   // what is mapped is memory at once
  std::atomic<unsigned> denied_{0};
  std::atomic<std::size_t> cut_{0};     // bytes of the window
  std::atomic<std::size_t> mapped_{0};  // bytes of spans
  std::atomic<std::size_t> used_{0};    // of those, what spans have need of, or a little more
  std::atomic<std::size_t> unasked_{kUnasked};
  std::atomic<std::size_t> share_{kNoShare};  // of the group, as last seen
  std::atomic<bool> took_{false};
};

}  // namespace heapyard
