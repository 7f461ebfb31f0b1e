// SPDX-License-Identifier: Apache-2.0
// Where the tracer's own memory lies in the program, so that nobody else is charged for it.
//
// Idea: few ranges, in the session's header for the collector to see. Cost: O(ranges), beside a system call. Threads:
// whoever finds another at it leaves its own out; that range then counts as unknown. Signals: as threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class OwnMemory {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    change([&](Range& range) {
      if (range.begin <= begin && range.end >= end) return true;  // a part of it, mapped anew
      if (range.end != range.begin) return false;
      range = {begin, end};
      return true;
    });
  }
  // From either end of a range, or all of it.
  void remove(std::uint64_t begin, std::uint64_t end) {
    change([&](Range& range) {
      if (range.begin >= end || range.end <= begin) return false;
      if (range.begin >= begin) range.begin = std::min(end, range.end);
      if (range.end <= end) range.end = std::max(begin, range.begin);
      return true;
    });
  }
  // To the collector of a session, from now on; null: to nobody, by the only thread of a child that was just forked.
  void tell(Header* header) {
    header_ = header;
    if (header == nullptr) busy_.store(false, std::memory_order_relaxed);
    change([](Range&) { return true; });
  }

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;  // the same: it is free
  };

  // Of the first range that the change is for.
  template <class Change>
  void change(Change change) {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    for (Range& range : ranges_) {
      if (change(range)) break;
    }
    for (unsigned index = 0; header_ != nullptr && index < kOwnRanges; ++index) {
      header_->own_begins[index].store(ranges_[index].begin, std::memory_order_relaxed);
      header_->own_ends[index].store(ranges_[index].end, std::memory_order_relaxed);
    }
    busy_.store(false, std::memory_order_release);
  }

  Range ranges_[kOwnRanges] = {};
  Header* header_ = nullptr;
  std::atomic<bool> busy_{false};
};

}  // namespace heapyard::tracer
