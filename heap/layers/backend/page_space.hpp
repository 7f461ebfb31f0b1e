// SPDX-License-Identifier: Apache-2.0
// The address space of the runs: it grows with the heap, and goes back where a limit on it is met.
//
// Idea: free runs keep their addresses, and only their memory goes back, for a mapping is dear. But where the system
// gives no more, a limit may be on address space, and others need what lies free here: large blocks with mappings of
// their own, other libraries, the tables of this heap. Then the large free runs are unmapped: they are gone. A gone run
// is mapped again, in part, before the heap grows at its end. A large block whose copy does not fit moves behind the
// end, and leaves a gone run.
// Cost: O(log N) of N runs and a system call or two; give_back() so much for each large free run. Threads: the owner's
// lock.
//
// INVARIANT: a gone run has no dirty pages, and does not touch another. Where the system's pages are larger than ours,
// only runs at the end go.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/backend/free_runs.hpp"
#include "heap/layers/backend/page_budget.hpp"
#include "heap/layers/backend/page_frontier.hpp"
#include "heap/layers/backend/run_tree.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

template <RunMap Map>
class PageSpace {
  using Pages = typename Map::Window::Pages;

 public:
  static constexpr std::uint32_t kLeastGone = 256;  // pages: 1 MiB; each may be a mapping more to the system

  constexpr PageSpace(Map& map, FreeRuns<Map>& free, PageBudget& budget) : map_(map), free_(free), budget_(budget) {}

  // Behind the last page; and how many there are.
  std::uint32_t top() const { return frontier_.top(); }
  std::uint32_t there() const { return frontier_.there(); }

  // A free run of `need` pages at least; false when there is no more. `dense`: most will be used.
  bool grow(std::uint32_t need, bool dense) {
    PageRun* run = map_.take_record();
    if (run == nullptr) return false;
    if (bring_back(need, run)) return true;
    const std::uint32_t pages = frontier_.grow(need, dense);
    if (pages == 0) return map_.give_record_back(run), false;
    add(run, frontier_.top() - pages, pages);
    return true;
  }

  // Whether any of these pages may lie in a huge one.
  bool may_be_huge(std::uint32_t first, std::uint32_t end) const { return frontier_.may_be_huge(first, end); }

  // The addresses of large free runs, and of what is free at the end; whether there were any.
  bool give_back() {
    bool any = lower();
    if (os::page_bytes() != policy::kSmallPage) return any;
    for (PageRun* run = free_.largest_dirty(); run != nullptr && unmap(run); run = free_.largest_dirty()) any = true;
    for (PageRun* run = free_.largest_clean(); run != nullptr && unmap(run); run = free_.largest_clean()) any = true;
    return any;
  }

  // Moves the memory of a run in use to `to`, which becomes a run of `pages`, which are more; the run is gone. False
  // when the system cannot; then nothing has changed.
  bool move(PageRun* run, PageRun* to, std::uint32_t pages) {
    if (os::page_bytes() != policy::kSmallPage) return false;
    const std::uint32_t first = frontier_.top(), behind = first + run->pages, end = first + pages;
    if (end + 1 >= map_.end_page() || !map_.cover(end + 1)) return false;
    // The system would not tell what it replaces.
    if (!frontier_.vacant(behind, pages - run->pages)) return false;
    if (map_.window().commit(map_.address_of(behind), map_.address_of(end)) != os::Placed::done) return false;
    if (!map_.window().move(map_.address_of(run->page), map_.address_of(first), run->pages * policy::kSmallPage)) {
      map_.window().uncommit(map_.address_of(behind), map_.address_of(end));
      return false;
    }
    frontier_.rise(end, pages - run->pages);
    to->page = first;
    to->pages = pages;
    map_.make_dirty(first, pages);
    map_.make_clean(run->page, run->pages);
    is_gone(run);
    return true;
  }

  // For tests.
  bool holds(const PageRun* gone) const { return gone_.holds(gone); }

 private:
  static constexpr std::uint32_t kStep = 1024;  // pages of a gone run that are mapped at a time

  void add(PageRun* run, std::uint32_t page, std::uint32_t pages) {
    run->page = run->low = run->high = page;
    run->pages = pages;
    run->dirty = 0;
    free_.join(run, frontier_.top());
  }

  // Maps the first pages of a gone run again, as `run`.
  bool bring_back(std::uint32_t need, PageRun* run) {
    PageRun* gone = gone_.fit(need);
    if (gone == nullptr) return false;
    const std::uint32_t page = gone->page, wish = need < kStep ? kStep : need;
    const std::uint32_t pages = gone->pages < wish ? gone->pages : wish;
    if (map_.window().commit(map_.address_of(page), map_.address_of(page + pages)) != os::Placed::done) return false;
    gone_.erase(gone);
    if (gone->pages == pages) {
      map_.give_record_back(gone);
    } else {
      gone->page += pages;
      gone->pages -= pages;
      insert(gone);
    }
    frontier_.count(pages);
    add(run, page, pages);
    return true;
  }

  // Whether the run was large, and went.
  bool unmap(PageRun* run) {
    if (run->pages < kLeastGone) return false;
    if (!map_.window().uncommit(map_.address_of(run->page), map_.address_of(run->page + run->pages))) return false;
    free_.erase(run);
    budget_.take_dirty(map_.make_clean(run->page, run->pages));
    frontier_.count(0 - run->pages);
    is_gone(run);
    return true;
  }

  // Together with its neighbours.
  void is_gone(PageRun* run) {
    run->kind = PageRun::kGone;
    PageRun* left = map_.run_of(run->page - 1);
    if (left->kind == PageRun::kGone && left->page + left->pages == run->page) {
      gone_.erase(left);
      run->page = left->page;
      run->pages += left->pages;
      map_.give_record_back(left);
    }
    if (run->page + run->pages != frontier_.top()) {
      PageRun* right = map_.run_of(run->page + run->pages);
      if (right->kind == PageRun::kGone && right->page == run->page + run->pages) {
        gone_.erase(right);
        run->pages += right->pages;
        map_.give_record_back(right);
      }
    }
    insert(run);
  }
  void insert(PageRun* gone) {
    map_.name_ends(gone);
    gone_.insert(gone);
  }

  // The pages behind the last run in use.
  bool lower() {
    bool any = false;
    while (frontier_.there() != 0) {  // bound: the free and gone runs at the end
      PageRun* last = map_.run_of(frontier_.top() - 1);
      if (last->kind == PageRun::kGone) {
        gone_.erase(last);
        frontier_.fall(last->page);
        map_.give_record_back(last);
        continue;
      }
      if (last->kind != PageRun::kFree) return any;
      const std::uint32_t first = map_.page_at(os::round_up(map_.address_of(last->page), os::page_bytes()));
      const std::uint32_t pages = frontier_.top() - first;
      if (first >= frontier_.top() || !frontier_.lower(first)) return any;
      any = true;
      free_.erase(last);
      budget_.take_dirty(map_.make_clean(first, pages));
      if (first == last->page) {
        map_.give_record_back(last);
        continue;
      }
      last->pages = first - last->page;
      last->dirty = map_.dirty_in(last->page, last->pages);
      last->low = last->page;
      last->high = first;
      free_.insert(last);
      return any;
    }
    return any;
  }

  Map& map_;
  FreeRuns<Map>& free_;
  PageBudget& budget_;
  PageFrontier<Map> frontier_{map_};
  TreeNode nil_{};
  RunTree gone_{&nil_};
};

}  // namespace heapyard
