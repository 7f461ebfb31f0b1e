// SPDX-License-Identifier: Apache-2.0
// What is known of each small page of a window, out of band: the class of its blocks, the run it belongs to, whether it
// may hold something else than zeros.
//
// Idea: nothing lies between blocks, so a block costs what it holds, and a block of 4 KiB takes one page. The window
// begins with three tables, of which only what the pages in use need is mapped:
//
//   a byte per page      the size class          free() reads it, and nothing else
//   a word per page      the run                 slow paths
//   a bit per page       dirty                   runs of pages (page_runs.hpp)
//   128 bytes per run    what it is, and where   spans (spans/page_spans.hpp), large blocks, free runs
//
// The table of classes begins where the window begins, so the fast path loads one address. Pages are of 4 KiB whatever
// the system's are. Cost: O(1); O(n / 64) for the bits, O(n) for the words of n pages. Threads: bytes and words of a
// run belong to who has the run; the rest is under the lock of the runs.
//
// INVARIANT: runs tile the pages that are there, but for one page before each piece of the window. The first and the
// last page of a run name it; of a span each page does.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/policy/page_classes.hpp"
#include "heap/core/red_black_tree.hpp"
#include "heap/layers/page_concepts.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

struct TreeNode {
  core::TreeLinks<TreeNode> links;
};

// A run of pages. Its links are of the trees of free runs, or of its class's spans with room.
struct PageRun : TreeNode {
  // kKept: its memory is on its way back; kGone: it is not mapped.
  enum Kind : std::uint8_t { kNone, kFree, kKept, kSpan, kLarge, kGone };

  std::uint32_t page;  // the first, counted from the start of the window
  std::uint32_t pages;
  Kind kind;
  std::uint8_t size_class;            // of a span
  bool zero;                          // when it was taken
  std::uint8_t first_word;            // of a span: no block is free before this word
  std::uint16_t blocks, free_blocks;  // of a span
  std::uint8_t part;                  // of its class: whose span it is
  std::uint32_t owner;                // the first page of the first-class heap that has it, or 0; and on that heap's
  std::uint32_t owned_before, owned_after;  // list, the first pages of its neighbours
  union {
    std::uint64_t free[policy::PageClasses::kMostBlocks / 64];  // of a span, a bit each
    struct {
      std::uint32_t dirty;      // pages of a free run: so many,
      std::uint32_t low, high;  // all in [low, high)
    };
    PageRun* next;  // of a record that is not in use
  };
};
static_assert(sizeof(PageRun) <= 128);

template <GrowingWindow WindowT>
class PageMap {
 public:
  using Window = WindowT;
  static constexpr std::size_t kRecord = 128;

  constexpr explicit PageMap(Window& window) : window_(window) {}

  // After the window was reserved, by one thread.
  void lay_out() {
    const std::size_t pages = window_.bytes() / policy::kSmallPage;  // all that the tables speak of
    words_ = window_.start() + os::round_up(pages, kStep);
    records_ = words_ + os::round_up((pages / kGroup + 1) * sizeof(Group), kStep);
    const std::size_t tables = records_ - window_.start();
    if (window_.bytes() <= tables + kStep) return;
    const std::size_t runs = (window_.bytes() - tables) / (kRecord + policy::kSmallPage);
    const std::uintptr_t first = os::round_up(records_ + runs * kRecord, Window::kAlignment);
    if (first >= window_.end()) return;
    records_end_ = records_made_ = records_there_ = records_;
    records_end_ += runs * kRecord;
    first_page_ = page_at(first);
    classes_there_ = words_there_ = 0;
    end_page_ = static_cast<std::uint32_t>(pages);
  }

  // The first page that may be used, and the one behind the last: equal when there is no window.
  std::uint32_t first_page() const { return first_page_; }
  std::uint32_t end_page() const { return end_page_; }

  std::uint32_t page_at(std::uintptr_t address) const {
    return static_cast<std::uint32_t>((address - window_.start()) / policy::kSmallPage);
  }
  std::uintptr_t address_of(std::uint32_t page) const { return window_.start() + page * policy::kSmallPage; }
  std::uint32_t page_of(const void* block) const { return page_at(reinterpret_cast<std::uintptr_t>(block)); }

  // Of an address in the window: the size class of its blocks; 0 when it is of a large block, or of none. Static, so
  // that free() needs the window's address only.
  static unsigned class_of(const Window& window, const void* block) {
    const std::uintptr_t start = window.start(), offset = reinterpret_cast<std::uintptr_t>(block) - start;
    return reinterpret_cast<const std::uint8_t*>(start)[offset >> policy::kSmallPageLog2];
  }
  void set_class(const PageRun* run, std::uint8_t c) {
    auto* const classes = reinterpret_cast<std::uint8_t*>(window_.start());
    for (std::uint32_t i = 0; i < run->pages; ++i) classes[run->page + i] = c;  // bound: pages of a span
  }

  // The run that a page names; a run of kind kNone where there is none.
  PageRun* run_of(std::uint32_t page) const {
    const std::uint32_t id = group_of(page).run[page % kGroup];
    return id == 0 ? const_cast<PageRun*>(&none_) : reinterpret_cast<PageRun*>(records_ + (id - 1) * kRecord);
  }
  void name_ends(PageRun* run) {
    const std::uint32_t id = id_of(run), last = run->page + run->pages - 1;
    group_of(run->page).run[run->page % kGroup] = group_of(last).run[last % kGroup] = id;
  }
  void name_all(PageRun* run) {
    const std::uint32_t id = id_of(run);
    for (std::uint32_t i = 0; i < run->pages; ++i)  // bound: pages of a span
      group_of(run->page + i).run[(run->page + i) % kGroup] = id;
  }

  // How many of [page, page + n) are dirty.
  std::uint32_t dirty_in(std::uint32_t page, std::uint32_t n) const {
    std::uint32_t count = 0;
    each_word(page, n, [&](std::uint64_t& word, std::uint64_t mask) {
      count += static_cast<std::uint32_t>(std::popcount(word & mask));
    });
    return count;
  }
  void make_dirty(std::uint32_t page, std::uint32_t n) {
    each_word(page, n, [](std::uint64_t& word, std::uint64_t mask) { word |= mask; });
  }
  // How many of them were dirty.
  std::uint32_t make_clean(std::uint32_t page, std::uint32_t n) {
    std::uint32_t count = 0;
    each_word(page, n, [&](std::uint64_t& word, std::uint64_t mask) {
      count += static_cast<std::uint32_t>(std::popcount(word & mask));
      word &= ~mask;
    });
    return count;
  }

  // Makes the tables speak of all pages before `end`. False when memory is out.
  bool cover(std::uint32_t end) {
    const std::uintptr_t first_class = window_.start() + first_page_, last_class = window_.start() + end;
    const std::uintptr_t first_word = words_ + first_page_ / kGroup * sizeof(Group),
                         last_word = words_ + (end / kGroup + 1) * sizeof(Group);
    return extend(classes_there_, first_class, last_class) && extend(words_there_, first_word, last_word);
  }

  // A record whose run is of kind kNone; null when memory is out.
  PageRun* take_record() {
    if (unused_ != nullptr) {
      PageRun* run = unused_;
      unused_ = run->next;
      return run;
    }
    const std::uintptr_t at = records_made_;
    if (at == records_end_ || !extend(records_there_, records_, at + kRecord)) return nullptr;
    records_made_ = at + kRecord;
    return reinterpret_cast<PageRun*>(at);
  }
  void give_record_back(PageRun* run) {
    run->kind = PageRun::kNone;
    run->next = unused_;
    unused_ = run;
  }

  Window& window() { return window_; }

 private:
  static constexpr std::uint32_t kGroup = 1024;
  static constexpr std::size_t kStep = std::size_t{64} << 10;  // by which tables grow; a multiple of any system's page
  struct Group {
    std::uint32_t run[kGroup];
    std::uint64_t dirty[kGroup / 64];
  };

  Group& group_of(std::uint32_t page) const { return reinterpret_cast<Group*>(words_)[page / kGroup]; }
  std::uint32_t id_of(const PageRun* run) const {
    return static_cast<std::uint32_t>((reinterpret_cast<std::uintptr_t>(run) - records_) / kRecord) + 1;
  }

  template <class Work>
  void each_word(std::uint32_t page, std::uint32_t n, Work work) const {
    const std::uint32_t end = page + n;
    while (page != end) {  // bound: n / 64 + 2
      const std::uint32_t bit = page % 64, most = 64 - bit, here = end - page < most ? end - page : most;
      const std::uint64_t mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << bit;
      work(group_of(page).dirty[page % kGroup / 64], mask);
      page += here;
    }
  }

  // Makes a table that begins at `first` reach to `last`. `there`: its end, 0 at first.
  bool extend(std::uintptr_t& there, std::uintptr_t first, std::uintptr_t last) {
    if (there == 0) there = first & ~(kStep - 1);
    if (last <= there) return true;
    const std::uintptr_t end = os::round_up(last, kStep);
    if (window_.commit(there, end) != os::Placed::done) return false;
    there = end;
    return true;
  }

  Window& window_;
  std::uintptr_t words_ = 0, records_ = 0;
  std::uintptr_t records_made_ = 0, records_end_ = 0;
  std::uintptr_t classes_there_ = 0, words_there_ = 0, records_there_ = 0;  // the ends of what is mapped
  std::uint32_t first_page_ = 0, end_page_ = 0;
  PageRun* unused_ = nullptr;
  PageRun none_{};
};

}  // namespace heapyard
