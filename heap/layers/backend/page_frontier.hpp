// SPDX-License-Identifier: Apache-2.0
// How far the pages of a window are there, and by which steps they come.
//
// Idea: the heap grows upwards, by a quarter of what is there, so neighbours stay one mapping to the system. Where a
// mapping of the program's lies in the way, the next piece begins behind it. If huge pages are wanted, the heap grows
// up to the next place of one with small pages, then by whole ones. Cost: up to kTries times the system calls of a
// piece. Threads: the owner's lock; there() may be asked by any.
#pragma once

#include <atomic>
#include <cstdint>

#include "heap/os/address_space.hpp"
#include "heap/os/pages.hpp"
#include "heap/policy/page_classes.hpp"

namespace heapyard {

template <RunMap Map>
class PageFrontier {
 public:
  constexpr explicit PageFrontier(Map& map) : map_(map) {}

  // Behind the last page that is there; 0 at first.
  std::uint32_t top() const { return top_; }
  std::uint32_t there() const { return there_.load(std::memory_order_relaxed); }

  // New pages, `need` at least, of how many; they end at top(). 0: there are no more. `dense`: most will be used.
  [[gnu::noinline, gnu::cold]] std::uint32_t grow(std::uint32_t need, bool dense) {
    const std::uint32_t quarter = there() / 4;
    std::uint32_t step = quarter < kLeastStep ? kLeastStep : quarter > kMostStep ? kMostStep : quarter;
    if (top_ == 0) top_ = behind_gap(map_.first_page());
    for (unsigned tries = 0; tries < kTries; ++tries) {
      const std::uint32_t small = (kHuge - top_ % kHuge) % kHuge;  // pages before the next huge one
      const bool huge = dense && small == 0 && need <= kHuge && step != 0 && unit() == 1;
      if (huge) step = kHuge;
      if (dense && small >= need && step > small) step = small;
      const auto pages = static_cast<std::uint32_t>(os::round_up(step < need ? need : step, unit()));
      if (top_ >= map_.end_page() || map_.end_page() - top_ <= pages || !map_.cover(top_ + pages + unit())) return 0;
      const os::Placed placed = map_.window().commit(map_.address_of(top_), map_.address_of(top_ + pages), huge);
      if (placed == os::Placed::done) {
        if (huge) is_huge(top_, top_ + pages);
        there_.store(there() + pages, std::memory_order_relaxed);
        top_ += pages;
        return pages;
      }
      if (placed == os::Placed::occupied) {
        top_ = behind_gap(top_ + pages);
      } else {
        if (step <= need) return 0;
        step = 0;
      }
    }
    return 0;
  }

  // Whether nothing is mapped in [top(), end), of which `piece` pages at a time are tried. O(pages / piece) calls.
  bool vacant(std::uint32_t end, std::uint32_t piece) {
    if ((end - top_) / piece >= kMostPieces) return false;
    for (std::uint32_t page = top_; page < end; page += piece) {  // bound: kMostPieces
      const std::uint32_t last = end - page < piece ? end : page + piece;
      if (map_.window().commit(map_.address_of(page), map_.address_of(last)) != os::Placed::done) return false;
      map_.window().uncommit(map_.address_of(page), map_.address_of(last));
    }
    return true;
  }

  // Whether any of these pages may lie in a huge one.
  bool may_be_huge(std::uint32_t first, std::uint32_t end) const { return first < huge_end_ && end > huge_from_; }

  // So many pages below the end are there again, or no longer: by differences modulo 2^32.
  void count(std::uint32_t more) { there_.store(there() + more, std::memory_order_relaxed); }
  // Pages up to `end` are there now, `more` than there were.
  void rise(std::uint32_t end, std::uint32_t more) {
    top_ = end;
    count(more);
  }
  // The pages from `first` on are not there, and were not.
  void fall(std::uint32_t first) { top_ = first; }

  // The last pages, from `first` on, go back to the system; false when it cannot take them.
  bool lower(std::uint32_t first) {
    if (!map_.window().uncommit(map_.address_of(first), map_.address_of(top_))) return false;
    there_.store(there() - (top_ - first), std::memory_order_relaxed);
    top_ = first;
    return true;
  }

 private:
  static constexpr std::uint32_t kLeastStep = 64, kMostStep = 1024;  // pages
  static constexpr std::uint32_t kHuge = Map::Window::kHugePage / policy::kSmallPage;
  static constexpr unsigned kTries = 8, kMostPieces = 64;

  void is_huge(std::uint32_t first, std::uint32_t end) {
    if (huge_end_ == 0 || first < huge_from_) huge_from_ = first;
    if (end > huge_end_) huge_end_ = end;
  }

  static std::uint32_t unit() { return static_cast<std::uint32_t>(os::page_bytes() / policy::kSmallPage); }
  // A page that belongs to no run lies before each piece, so that nothing is joined across it.
  static std::uint32_t behind_gap(std::uint32_t page) { return page + unit(); }

  Map& map_;
  std::uint32_t top_ = 0;
  std::uint32_t huge_from_ = 0, huge_end_ = 0;  // all huge pages lie between
  std::atomic<std::uint32_t> there_{0};
};

}  // namespace heapyard
