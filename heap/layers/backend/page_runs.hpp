// SPDX-License-Identifier: Apache-2.0
// Runs of small pages, by best fit, coalesced at once, and what becomes of free memory.
//
// Idea: spans and large blocks of any size take their pages from one place, so nothing is kept for a class that does
// not use it. Two trees hold the free runs, by pages and then by address: those with dirty pages, and those that are
// all zeros. A request takes the lower part of the smallest dirty run that serves it, else of a clean one, else the
// heap grows. Neighbours are found by the table of runs (page_map.hpp), in O(1).
//
// Dirty pages that are free stay with the process as long as they and those in use are an eighth more than were in use
// at the last peak. Beyond that they go back: as many as come new when memory would grow otherwise, and the rest when
// the peak is two epochs old. This is owed, and paid by slow paths, a bounded piece at a time, while no lock is held.
//
// Cost: allocate and free O(log N) of N free runs, O(pages / 64) for the bits, and a system call or more when growing.
// settle: one system call of at most kPiece pages. Threads: one lock.
//
// INVARIANT: no two free runs touch. A free run is in the dirty tree if and only if it has dirty pages.
#pragma once

#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/layers/backend/page_map.hpp"
#include "heap/os/lock.hpp"
#include "heap/tracing/page_events.hpp"

namespace heapyard {

template <class MapT>
class PageRuns {
 public:
  using Map = MapT;
  using Pages = typename Map::Window::Pages;
  static constexpr std::uint32_t kPiece = 1024;     // pages that go back in one call
  static constexpr std::uint32_t kLeastPiece = 64;  // a call for less is not worth it
  static constexpr std::uint32_t kShare = 32;       // of what was in use: one part more may be there
  static constexpr std::uint32_t kSlack = 32;       // pages more, which a small heap keeps

  constexpr explicit PageRuns(Map& map) : map_(map) {}

  // A run of `pages` at a multiple of `alignment` pages, a power of two. Null when memory is out. Its kind is set, and
  // what names it: of a span all pages.
  PageRun* allocate(std::uint32_t pages, std::uint32_t alignment, PageRun::Kind kind) {
    const os::Locked locked(lock_);
    PageRun* run = take(pages + alignment - 1, pages, alignment);
    if (run == nullptr) return nullptr;
    run->kind = kind;
    if (kind == PageRun::kSpan)
      map_.name_all(run);
    else
      map_.name_ends(run);
    count_used(kind, pages);
    balance();
    tracing::page_taken(memory_of(run), bytes_of(run));
    return run;
  }

  void free(PageRun* run) {
    tracing::page_returned(memory_of(run));
    const os::Locked locked(lock_);
    count_used(run->kind, 0 - run->pages);
    made_free(run);
  }

  // The same for a run whose pages were moved away: they are zeros again.
  void free_moved(PageRun* run) {
    tracing::page_returned(memory_of(run));
    const os::Locked locked(lock_);
    count_used(run->kind, 0 - run->pages);
    map_.make_clean(run->page, run->pages);
    run->dirty = 0;
    run->low = run->high = run->page;
    join(run);
  }

  // Whether the run of a large block now has so many pages where it is.
  bool resize(PageRun* run, std::uint32_t pages) {
    const os::Locked locked(lock_);
    const std::uint32_t before = run->pages;
    if (pages == before) return true;
    if (pages > before) {
      PageRun* next = behind(run);
      const std::uint32_t more = pages - before;
      if (next->kind != PageRun::kFree || next->page != run->page + before || next->pages < more) return false;
      forget(next);
      if (next->pages == more) {
        count_taken(run->page + before, more);
        map_.give_record_back(next);
      } else {
        cut_front(next, more);
      }
    } else {
      PageRun* rest = map_.take_record();
      if (rest == nullptr) return false;
      rest->page = run->page + pages;
      rest->pages = before - pages;
      run->pages = pages;
      map_.name_ends(run);
      made_free(rest);
    }
    run->pages = pages;
    map_.name_ends(run);
    count_used(PageRun::kLarge, pages - before);
    balance();
    tracing::page_returned(memory_of(run));
    tracing::page_taken(memory_of(run), bytes_of(run));
    return true;
  }

  // Gives a piece of what is owed back to the system; now and then it looks whether anything is. By slow paths, which
  // hold no lock.
  void settle() {
    if (owed_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      pay();
      return;
    }
    const std::uint32_t turn = turns_.load(std::memory_order_relaxed) + 1;
    turns_.store(turn, std::memory_order_relaxed);  // others' steps may get lost
    if (turn % kTurns != 0) [[likely]]
      return;
    const os::Locked locked(lock_);
    look_at_what_is_free();
  }

  // All free pages go back. O(N + free pages / kPiece) system calls.
  void trim() {
    for (;;) {  // bound: free pages / kPiece, and the runs
      {
        const os::Locked locked(lock_);
        if (dirty_free_ == 0 || dirty_.empty()) return;
        owed_.store(dirty_free_, std::memory_order_relaxed);
      }
      if (!pay()) return;
    }
  }

  // Address space too: the pages behind the last run in use. Whether there were any.
  bool shrink() {
    const os::Locked locked(lock_);
    if (top_ == 0) return false;
    PageRun* last = map_.run_of(top_ - 1);
    if (last->kind != PageRun::kFree) return false;
    const std::uintptr_t from = os::round_up(map_.address_of(last->page), os::page_bytes());
    const std::uintptr_t end = map_.address_of(top_);
    if (from >= end || !map_.window().uncommit(from, end)) return false;
    forget(last);
    const std::uint32_t first = map_.page_at(from), gone = top_ - first;
    dirty_free_ -= map_.make_clean(first, gone);
    top_ = first;
    there_ -= gone;
    if (first == last->page) {
      map_.give_record_back(last);
    } else {
      last->pages = first - last->page;
      last->dirty = map_.dirty_in(last->page, last->pages);
      last->low = last->page;
      last->high = first;
      remember(last);
    }
    return true;
  }

  void* memory_of(const PageRun* run) const { return reinterpret_cast<void*>(map_.address_of(run->page)); }
  static std::size_t bytes_of(const PageRun* run) { return run->pages * core::kSmallPage; }
  std::size_t used_bytes() const { return used_.load(std::memory_order_relaxed) * core::kSmallPage; }
  std::size_t large_bytes() const { return large_.load(std::memory_order_relaxed) * core::kSmallPage; }
  std::size_t there_bytes() const { return there_.load(std::memory_order_relaxed) * core::kSmallPage; }
  // Free, and not given back.
  std::size_t dirty_bytes() {
    const os::Locked locked(lock_);
    return dirty_free_ * core::kSmallPage;
  }
  Map& map() { return map_; }

  // For tests: whether every INVARIANT holds. O(runs log N + pages).
  bool consistent();

 private:
  using Tree = core::RedBlackTree<TreeNode, &TreeNode::links>;
  static constexpr std::uint32_t kLeastStep = 64, kMostStep = 1024;  // pages by which the heap grows: a quarter of it
  static constexpr std::uint32_t kTurns = 64;                        // slow paths between two looks at the clock
  static constexpr unsigned kTries = 8;  // mappings of the program's that may lie in the way, one after the other
  static constexpr long kEpoch = 400;    // milliseconds

  // Takes the first `pages` at a multiple of `alignment` out of the smallest run of at least `enough`.
  PageRun* take(std::uint32_t enough, std::uint32_t pages, std::uint32_t alignment) {
    PageRun* taken = map_.take_record();
    PageRun* front = alignment == 1 || taken == nullptr ? nullptr : map_.take_record();
    if (taken == nullptr || (alignment != 1 && front == nullptr)) {
      if (taken != nullptr) map_.give_record_back(taken);
      return nullptr;
    }
    PageRun* run = fit(dirty_, enough);
    if (run == nullptr) run = fit(clean_, enough);
    if (run == nullptr && grow(enough)) {
      run = fit(dirty_, enough);
      if (run == nullptr) run = fit(clean_, enough);
    }
    if (run == nullptr) {
      if (front != nullptr) map_.give_record_back(front);
      map_.give_record_back(taken);
      return nullptr;
    }
    forget(run);
    const std::uint32_t page = aligned(run->page, alignment), before = page - run->page;
    if (front != nullptr) {
      if (before != 0) {
        // It stays where it is: clean and dirty pages keep their bits.
        front->page = run->page;
        front->pages = before;
        front->dirty = map_.dirty_in(front->page, before);
        front->low = front->page;
        front->high = page;
        run->page = page;
        run->pages -= before;
        run->dirty -= front->dirty;
        front->kind = PageRun::kFree;
        remember(front);
      } else {
        map_.give_record_back(front);
      }
    }
    taken->page = page;
    taken->pages = pages;
    if (run->pages == pages) {
      taken->zero = count_taken(page, pages) == 0;
      map_.give_record_back(run);
    } else {
      taken->zero = cut_front(run, pages) == 0;
    }
    return taken;
  }

  std::uint32_t aligned(std::uint32_t page, std::uint32_t alignment) const {
    const std::uintptr_t bytes = alignment * core::kSmallPage;
    return map_.page_at(os::round_up(map_.address_of(page), bytes));
  }

  // A run that is in no tree loses its first pages to somebody who uses them, and is in a tree again. How many of
  // these were dirty.
  std::uint32_t cut_front(PageRun* run, std::uint32_t pages) {
    const std::uint32_t page = run->page, dirty = count_taken(page, pages);
    run->page += pages;
    run->pages -= pages;
    run->dirty -= dirty;
    if (run->low < run->page) run->low = run->page;
    if (run->high < run->low) run->high = run->low;
    remember(run);
    return dirty;
  }

  // Pages of a free run come into use. How many of them were dirty.
  std::uint32_t count_taken(std::uint32_t page, std::uint32_t pages) {
    const std::uint32_t dirty = map_.dirty_in(page, pages);
    dirty_free_ -= dirty;
    fresh_ = pages - dirty;
    if (fresh_ != 0) map_.make_dirty(page, pages);
    return dirty;
  }
  // After pages came into use: for new ones, dirty ones elsewhere must go, if there are too many.
  void balance() {
    const std::uint32_t most = allowed();
    if (fresh_ != 0 && dirty_free_ > most) owe(fresh_ < dirty_free_ - most ? fresh_ : dirty_free_ - most);
    fresh_ = 0;
  }

  // Differences may be below zero, modulo 2^32.
  void count_used(PageRun::Kind kind, std::uint32_t more) {
    const std::uint32_t used = used_.load(std::memory_order_relaxed) + more;
    used_.store(used, std::memory_order_relaxed);
    if (used > peak_) peak_ = used;
    if (kind == PageRun::kLarge) large_.store(large_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  // A run in use becomes free: all its pages count as dirty.
  void made_free(PageRun* run) {
    run->dirty = run->pages;
    run->low = run->page;
    run->high = run->page + run->pages;
    dirty_free_ += run->pages;
    join(run);
    look_at_what_is_free();
  }

  void look_at_what_is_free() {
    if (dirty_free_ > used_.load(std::memory_order_relaxed) / kShare + kSlack) look_at_the_clock();
  }

  // Peaks are forgotten after two epochs; then what they needed is owed.
  void look_at_the_clock() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const long milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    if (milliseconds - epoch_ < kEpoch) return;
    epoch_ = milliseconds;
    peak_before_ = peak_;
    peak_ = used_.load(std::memory_order_relaxed);
    if (const std::uint32_t most = allowed(); dirty_free_ > most) owe(dirty_free_ - most);
  }

  // How many pages may be free and dirty: with those in use a share more than were in use at the last peak.
  std::uint32_t allowed() const {
    const std::uint32_t peak = peak_ > peak_before_ ? peak_ : peak_before_;
    return peak + peak / kShare + kSlack - used_.load(std::memory_order_relaxed);
  }
  void owe(std::uint32_t pages) {
    const std::uint32_t sum = owed_.load(std::memory_order_relaxed) + pages;
    owed_.store(sum < dirty_free_ ? sum : dirty_free_, std::memory_order_relaxed);
  }

  // Whether anything went back.
  [[gnu::noinline, gnu::cold]] bool pay() {
    PageRun* run;
    std::uint32_t first, end;
    {
      const os::Locked locked(lock_);
      if (dirty_.empty() || owed_.load(std::memory_order_relaxed) == 0) {
        owed_.store(0, std::memory_order_relaxed);
        return false;
      }
      run = static_cast<PageRun*>(dirty_.last(1));  // the largest: the fewest calls
      forget(run);
      run->kind = PageRun::kKept;
      const std::uint32_t owed = owed_.load(std::memory_order_relaxed);
      const std::uint32_t piece = owed > kPiece ? kPiece : owed < kLeastPiece ? kLeastPiece : owed;
      first = run->high - run->low > piece ? run->high - piece : run->low;
      end = run->high;
    }
    // A page of the system's goes back whole or not at all.
    const std::uintptr_t page = os::page_bytes();
    const std::uintptr_t from = os::round_up(map_.address_of(first), page), to = map_.address_of(end) & ~(page - 1);
    const bool gone = from < to && Pages::decommit(reinterpret_cast<void*>(from), to - from);
    const os::Locked locked(lock_);
    std::uint32_t clean = 0;
    if (gone) clean = map_.make_clean(map_.page_at(from), static_cast<std::uint32_t>((to - from) / core::kSmallPage));
    run->dirty -= clean;
    dirty_free_ -= clean;
    if (gone) run->high = map_.page_at(from) > run->low ? map_.page_at(from) : run->low;
    if (run->dirty != 0 && to != map_.address_of(end)) run->high = end;  // the system's pages are larger
    const bool went = clean != 0 || run->high < end;
    const std::uint32_t owed = owed_.load(std::memory_order_relaxed);
    owed_.store(!went || clean >= owed ? 0 : owed - clean, std::memory_order_relaxed);
    join(run);
    return went;
  }

  PageRun* before(const PageRun* run) const { return map_.run_of(run->page - 1); }
  PageRun* behind(const PageRun* run) const {
    const std::uint32_t page = run->page + run->pages;
    return page == top_ ? map_.run_of(map_.first_page()) : map_.run_of(page);
  }

  // A run in no tree becomes a free one, together with its neighbours.
  void join(PageRun* run) {
    run->kind = PageRun::kFree;
    if (PageRun* left = before(run); left->kind == PageRun::kFree && left->page + left->pages == run->page) {
      forget(left);
      take_in(run, left);
      run->page = left->page;
      map_.give_record_back(left);
    }
    if (run->page + run->pages != top_) {
      PageRun* right = map_.run_of(run->page + run->pages);
      if (right->kind == PageRun::kFree && right->page == run->page + run->pages) {
        forget(right);
        take_in(run, right);
        map_.give_record_back(right);
      }
    }
    remember(run);
  }
  static void take_in(PageRun* run, const PageRun* other) {
    if (other->dirty != 0) {
      if (run->dirty == 0 || other->low < run->low) run->low = other->low;
      if (run->dirty == 0 || other->high > run->high) run->high = other->high;
    }
    run->dirty += other->dirty;
    run->pages += other->pages;
  }

  Tree& tree_of(const PageRun* run) { return run->dirty != 0 ? dirty_ : clean_; }
  static bool less(const PageRun* a, const PageRun* b) {
    return a->pages != b->pages ? a->pages < b->pages : a->page < b->page;
  }
  void forget(PageRun* run) { tree_of(run).erase(run); }
  void remember(PageRun* run) {
    map_.name_ends(run);
    Tree& tree = tree_of(run);
    TreeNode* parent = tree.nil();
    int side = 0;
    for (TreeNode* here = tree.root(); here != tree.nil(); here = tree.child(here, side)) {  // O(log N)
      parent = here;
      side = less(static_cast<PageRun*>(here), run);
    }
    tree.insert(run, parent, side);
  }
  // The smallest run of at least so many pages, the lowest of these; null if there is none.
  static PageRun* fit(const Tree& tree, std::uint32_t pages) {
    TreeNode* best = nullptr;
    for (TreeNode* here = tree.root(); here != tree.nil();) {  // O(log N)
      const bool fits = static_cast<PageRun*>(here)->pages >= pages;
      if (fits) best = here;
      here = tree.child(here, !fits);
    }
    return static_cast<PageRun*>(best);
  }

  [[gnu::noinline, gnu::cold]] bool grow(std::uint32_t need) {
    const std::uint32_t there = there_.load(std::memory_order_relaxed);
    std::uint32_t step = there / 4 < kLeastStep ? kLeastStep : there / 4 > kMostStep ? kMostStep : there / 4;
    const std::uint32_t unit = static_cast<std::uint32_t>(os::page_bytes() / core::kSmallPage);
    if (top_ == 0) top_ = first_page_behind(map_.first_page());
    for (unsigned tries = 0; tries < kTries; ++tries) {
      const std::uint32_t pages = os::round_up(step < need ? need : step, unit);
      if (top_ >= map_.end_page() || map_.end_page() - top_ <= pages) return false;
      PageRun* run = map_.cover(top_ + pages + 1) ? map_.take_record() : nullptr;
      if (run == nullptr) return false;
      const os::Placed placed = map_.window().commit(map_.address_of(top_), map_.address_of(top_ + pages));
      if (placed != os::Placed::done) {
        map_.give_record_back(run);
        if (placed == os::Placed::occupied) {
          top_ = first_page_behind(top_ + pages);  // by a mapping of the program's: behind it
        } else {
          if (step <= need) return false;
          step = 0;
        }
        continue;
      }
      run->page = top_;
      run->pages = pages;
      run->dirty = 0;
      run->low = run->high = top_;
      there_.store(there + pages, std::memory_order_relaxed);
      top_ += pages;
      join(run);
      return true;
    }
    return false;
  }
  // A page that belongs to no run lies before each piece, so that nothing is joined across it.
  static std::uint32_t first_page_behind(std::uint32_t page) {
    return page + static_cast<std::uint32_t>(os::page_bytes() / core::kSmallPage);
  }

  Map& map_;
  TreeNode nil_{};  // of both trees
  Tree dirty_{&nil_};
  Tree clean_{&nil_};
  std::uint32_t top_ = 0;          // behind the last page that is there
  std::uint32_t dirty_free_ = 0;   // pages
  std::uint32_t fresh_ = 0;        // that came into use, and are not yet weighed against dirty ones
  std::uint32_t peak_ = 0;         // of the pages in use in this epoch,
  std::uint32_t peak_before_ = 0;  // and in the one before
  long epoch_ = 0;
  std::atomic<std::uint32_t> used_{0}, large_{0}, there_{0}, owed_{0};  // pages
  std::atomic<std::uint32_t> turns_{0};
  os::Lock lock_;
};

}  // namespace heapyard
