// Pages of 256 KiB, eight to a virtual span of 2 MiB; and of 2 MiB, each a virtual span.
//
// Idea: elfmalloc's page source (`carve`). What a page is, small or big, stands in the first byte of its 2 MiB, so a
// block's page is found from its address alone. Cost: O(1), under a lock. Threads: any. Errors: null.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Spans: a source of 2 MiB each, at a multiple of that, zeroed. Page: has `bool big_page` as its first member.
template <class Page, class Spans, std::size_t Small, bool Big>
class PageGroups {
  static_assert(Spans::kSpan % Small == 0);

 public:
  constexpr explicit PageGroups(Spans& spans) : spans_(spans) {}

  // A zeroed page, but for what it is, to be committed; null when there are none left.
  void* allocate() {
    if constexpr (Big) {
      auto* page = static_cast<Page*>(spans_.allocate());
      if (page == nullptr || !spans_.commit(page, os::page_bytes())) return nullptr;
      page->big_page = true;
      return page;
    }
    const os::Locked locked(lock_);
    if (left_ == 0) {
      next_ = static_cast<char*>(spans_.allocate());
      // What its pages are, small, is what its first byte says when it is zero.
      if (next_ == nullptr || !spans_.commit(next_, os::page_bytes())) return nullptr;
      left_ = Spans::kSpan / Small;
    }
    --left_;
    next_ += Small;
    return next_ - Small;
  }

  bool commit(void* memory, std::size_t bytes) { return spans_.commit(memory, bytes); }
  void give_back(void* memory, std::size_t bytes) { spans_.give_back(memory, bytes); }

  void fork_prepare() { lock_.lock(); }
  void fork_parent() { lock_.unlock(); }
  void fork_child() { lock_.reset(); }

 private:
  Spans& spans_;
  os::Lock lock_;
  char* next_ = nullptr;
  std::size_t left_ = 0;  // pages of this group
};

}  // namespace heapyard
