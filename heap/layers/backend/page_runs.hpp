// SPDX-License-Identifier: Apache-2.0
// Runs of small pages, by best fit, coalesced at once, and what becomes of free memory.
//
// Idea: spans and large blocks of any size take their pages from one place, so nothing is kept for a class that does
// not use it. A request takes the lower part of the free run that serves it best (free_runs.hpp); else the heap grows.
// How many pages may stay that are free and dirty, a budget says (page_budget.hpp). What is owed is paid by slow paths,
// a bounded piece at a time, while no lock is held. Once the heap has some size, it grows by huge pages for what will
// be dense: 512 page faults in one. Of a huge page from which memory goes back, the advice is taken back too. Cost:
// allocate and free O(log N) of N free runs, O(pages / 64) for the bits, and a system call or more when growing.
// settle: one system call of at most kPiece pages. Threads: one lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/layers/backend/free_runs.hpp"
#include "heap/layers/backend/page_budget.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/layers/backend/page_space.hpp"
#include "heap/os/lock.hpp"
#include "heap/tracing/page_events.hpp"

namespace heapyard {

template <RunMap MapT>
class PageRuns {
 public:
  using Map = MapT;
  using Pages = typename Map::Window::Pages;
  static constexpr std::uint32_t kPiece = 1024;     // pages that go back in one call
  static constexpr std::uint32_t kLeastPiece = 64;  // a call for less is not worth it
  static constexpr std::uint32_t kHugeFrom = 1024;  // pages in use: what is dense asks for huge ones then

  constexpr explicit PageRuns(Map& map) : map_(map) {}

  // A run of `pages` at a multiple of `alignment` pages, a power of two. Null when memory is out. Its kind is set, and
  // what names it: of a span all pages. `dense`: who uses it touches most pages.
  PageRun* allocate(std::uint32_t pages, std::uint32_t alignment, PageRun::Kind kind, bool dense = false) {
    const os::Locked locked(lock_);
    const bool huge = dense && budget_.used() >= huge_from_.load(std::memory_order_relaxed);
    PageRun* run = budget_.may_use(pages) ? take(pages + alignment - 1, pages, alignment, huge) : nullptr;
    if (run == nullptr) return nullptr;
    run->kind = kind;
    if (kind == PageRun::kSpan)
      map_.name_all(run);
    else
      map_.name_ends(run);
    budget_.use(pages, kind == PageRun::kLarge);
    budget_.weigh(fresh_);
    tracing::page_taken(memory_of(run), bytes_of(run));
    return run;
  }

  void free(PageRun* run) {
    tracing::page_returned(memory_of(run));
    const os::Locked locked(lock_);
    budget_.use(0 - run->pages, run->kind == PageRun::kLarge);
    made_free(run);
  }

  // The same for a run whose pages were moved away: they are zeros again.
  void free_moved(PageRun* run) {
    tracing::page_returned(memory_of(run));
    const os::Locked locked(lock_);
    budget_.use(0 - run->pages, run->kind == PageRun::kLarge);
    map_.make_clean(run->page, run->pages);
    run->dirty = 0;
    run->low = run->high = run->page;
    free_.join(run, space_.top());
  }

  // The class of the blocks of a span, which free() finds; 0: none.
  void name_class(PageRun* run, std::uint8_t c) { map_.set_class(run, c); }

  // Whether the run of a large block now has so many pages where it is.
  bool resize(PageRun* run, std::uint32_t pages) {
    const os::Locked locked(lock_);
    const std::uint32_t before = run->pages, more = pages - before;
    if (pages == before) return true;
    if (pages > before) {
      PageRun* next = behind(run);
      if (!budget_.may_use(more)) return false;
      if (next->kind != PageRun::kFree || next->page != run->page + before || next->pages < more) return false;
      free_.erase(next);
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
    budget_.use(pages - before, true);
    if (pages > before) budget_.weigh(fresh_);
    tracing::page_returned(memory_of(run));
    tracing::page_taken(memory_of(run), bytes_of(run));
    return true;
  }

  // Gives a piece of what is owed back to the system; now and then it looks whether anything is. By slow paths, which
  // hold no lock.
  void settle() {
    if (budget_.owed() != 0) [[unlikely]] {
      while (pay() && budget_.limit().set() && budget_.owed() != 0) continue;  // bound: free pages / kLeastPiece
      return;
    }
    if (++turns_ % kTurns != 0) [[likely]]
      return;
    const os::Locked locked(lock_);
    budget_.look();
  }

  // All free pages go back. O(N + free pages / kPiece) system calls.
  void trim() {
    for (;;) {  // bound: free pages / kPiece, and the runs
      {
        const os::Locked locked(lock_);
        if (free_.largest_dirty() == nullptr) return;
        budget_.owe_all();
      }
      if (!pay()) return;
    }
  }

  // Address space too, where there is much of it; whether there was any.
  bool shrink() {
    const os::Locked locked(lock_);
    return space_.give_back();
  }

  // A run of more pages with the memory of a large block, for when no room is left for both. Null when the system
  // cannot; then nothing has changed.
  PageRun* move(PageRun* run, std::uint32_t pages) {
    const os::Locked locked(lock_);
    if (!budget_.may_use(pages - run->pages)) return nullptr;
    space_.give_back();
    PageRun* to = map_.take_record();
    if (to == nullptr) return nullptr;
    const std::uint32_t before = run->pages;
    void* const from = memory_of(run);
    if (!space_.move(run, to, pages)) return map_.give_record_back(to), nullptr;
    to->kind = PageRun::kLarge;
    to->zero = false;
    map_.name_ends(to);
    budget_.use(pages - before, true);
    tracing::page_returned(from);
    tracing::page_taken(memory_of(to), bytes_of(to));
    return to;
  }

  void* memory_of(const PageRun* run) const { return reinterpret_cast<void*>(map_.address_of(run->page)); }
  static std::size_t bytes_of(const PageRun* run) { return run->pages * policy::kSmallPage; }
  std::size_t used_bytes() const { return std::size_t{budget_.used()} * policy::kSmallPage; }
  std::size_t large_bytes() const { return std::size_t{budget_.large()} * policy::kSmallPage; }
  std::size_t there_bytes() const { return std::size_t{space_.there()} * policy::kSmallPage; }
  // Free, and not given back.
  std::size_t dirty_bytes() const { return std::size_t{budget_.dirty()} * policy::kSmallPage; }
  Map& map() { return map_; }
  PageBudget& budget() { return budget_; }
  void use_huge_pages(bool use) { huge_from_.store(use ? kHugeFrom : UINT32_MAX, std::memory_order_relaxed); }

  // For tests: whether every INVARIANT holds. O(runs log N + pages).
  bool consistent();

 private:
  static constexpr std::uint32_t kTurns = 64;  // slow paths between two looks at the clock
  PageRun* take(std::uint32_t enough, std::uint32_t pages, std::uint32_t alignment, bool dense) {
    PageRun* taken = map_.take_record();
    PageRun* front = alignment == 1 || taken == nullptr ? nullptr : map_.take_record();
    if (taken == nullptr || (alignment != 1 && front == nullptr)) {
      if (taken != nullptr) map_.give_record_back(taken);
      return nullptr;
    }
    PageRun* run = free_.fit(enough);
    if (run == nullptr && space_.grow(enough, dense)) run = free_.fit(enough);
    if (run == nullptr) {
      if (front != nullptr) map_.give_record_back(front);
      map_.give_record_back(taken);
      return nullptr;
    }
    free_.erase(run);
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
        free_.insert(front);
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
    const std::uintptr_t bytes = alignment * policy::kSmallPage;
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
    free_.insert(run);
    return dirty;
  }

  // Pages of a free run come into use. How many of them were dirty.
  std::uint32_t count_taken(std::uint32_t page, std::uint32_t pages) {
    const std::uint32_t dirty = map_.dirty_in(page, pages);
    budget_.take_dirty(dirty);
    fresh_ = pages - dirty;
    if (fresh_ != 0) map_.make_dirty(page, pages);
    return dirty;
  }

  // A run in use becomes free: all its pages count as dirty.
  void made_free(PageRun* run) {
    run->dirty = run->pages;
    run->low = run->page;
    run->high = run->page + run->pages;
    budget_.add_dirty(run->pages);
    free_.join(run, space_.top());
    budget_.look();
  }

  // Whether anything went back.
  [[gnu::noinline, gnu::cold]] bool pay() {
    PageRun* run;
    std::uint32_t first, end;
    bool huge;
    {
      const os::Locked locked(lock_);
      run = free_.largest_dirty();  // the fewest calls
      if (run == nullptr || budget_.owed() == 0) return budget_.forgive(), false;
      free_.erase(run);
      run->kind = PageRun::kKept;
      const std::uint32_t owed = budget_.owed();
      const std::uint32_t piece = owed > kPiece ? kPiece : owed < kLeastPiece ? kLeastPiece : owed;
      first = run->high - run->low > piece ? run->high - piece : run->low;
      end = run->high;
      huge = space_.may_be_huge(first, end);
    }
    // A page of the system's goes back whole or not at all.
    const std::uintptr_t page = os::page_bytes();
    const std::uintptr_t from = os::round_up(map_.address_of(first), page), to = map_.address_of(end) & ~(page - 1);
    // Else the system might fill up what goes back, unasked, with a huge page.
    if (huge) refuse_huge_pages(from, to);
    const bool gone = from < to && Pages::decommit(reinterpret_cast<void*>(from), to - from);
    const os::Locked locked(lock_);
    std::uint32_t clean = 0;
    if (gone) clean = map_.make_clean(map_.page_at(from), static_cast<std::uint32_t>((to - from) / policy::kSmallPage));
    run->dirty -= clean;
    budget_.take_dirty(clean);
    if (gone) run->high = map_.page_at(from) > run->low ? map_.page_at(from) : run->low;
    if (run->dirty != 0 && to != map_.address_of(end)) run->high = end;  // the system's pages are larger
    const bool went = clean != 0 || run->high < end;
    went ? budget_.paid(clean) : budget_.forgive();
    free_.join(run, space_.top());
    return went;
  }

  // Of all huge pages that lie in [from, to) in part.
  static void refuse_huge_pages(std::uintptr_t from, std::uintptr_t to) {
    constexpr std::uintptr_t kHuge = Map::Window::kHugePage;
    from &= ~(kHuge - 1);
    to = os::round_up(to, kHuge);
    Pages::refuse_huge_pages(reinterpret_cast<void*>(from), to - from);
  }

  PageRun* behind(const PageRun* run) const {
    const std::uint32_t page = run->page + run->pages;
    return page == space_.top() ? map_.run_of(map_.first_page()) : map_.run_of(page);
  }

  Map& map_;
  FreeRuns<Map> free_{map_};
  PageBudget budget_;
  PageSpace<Map> space_{map_, free_, budget_};
  std::atomic<std::uint32_t> huge_from_{kHugeFrom};
  std::uint32_t fresh_ = 0;  // pages of those just taken that were not dirty
  os::Lock lock_;
  // Of this thread: what all count together goes from processor to processor at every turn.
  static inline constinit thread_local std::uint32_t turns_ = 0;
};

}  // namespace heapyard
