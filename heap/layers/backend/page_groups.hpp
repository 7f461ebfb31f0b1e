// SPDX-License-Identifier: Apache-2.0
// Pages of 256 KiB, eight to a virtual span of 2 MiB; and of 2 MiB, each a virtual span.
//
// Idea: elfmalloc's page source (`carve`). The first byte of each 2 MiB says whether its pages are small or big. So a
// block's page is found from its address alone. Cost: O(1), under a lock. Threads: any. Errors: null.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/span_concepts.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Spans: VirtualSpans of 2 MiB each, of one colour. Page: has `bool big_page` as its first member.
template <SizedPage Page, SpanSource Spans, std::size_t Small, bool Big>
class PageGroups {
  static_assert(Spans::kSpan % Small == 0);

 public:
  constexpr explicit PageGroups(Spans& spans) : spans_(spans) {}

  // A page whose first `bytes` are there, zeroed but for what it is; null when it cannot be had. `there`: how many are.
  void* allocate(std::size_t bytes, std::size_t& there) {
    if constexpr (Big) {
      auto* page = static_cast<Page*>(spans_.allocate(bytes, there));
      if (page != nullptr) page->big_page = true;
      return page;
    }
    const os::Locked locked(lock_);
    if (next_ == Spans::kSpan) {
      // What its pages are, small, is what its first byte says when it is zero.
      auto* group = static_cast<char*>(spans_.allocate(bytes, there_));
      if (group == nullptr) return nullptr;
      group_ = group;
      next_ = 0;
    } else if (!spans_.extend(group_, next_ + bytes, there_)) {
      return nullptr;
    }
    there = bytes;
    next_ += Small;
    return group_ + next_ - Small;
  }

  bool sparing() const { return spans_.sparing(); }
  bool extend(void* page, std::size_t bytes, std::size_t& there) { return spans_.extend(page, bytes, there); }
  void give_back(void* page, std::size_t& there, bool all) { spans_.give_back(page, there, all); }

 private:
  Spans& spans_;
  os::Lock lock_;
  char* group_ = nullptr;
  std::size_t next_ = Spans::kSpan;  // bytes of the group
  std::size_t there_ = 0;            // that are mapped
};

}  // namespace heapyard
