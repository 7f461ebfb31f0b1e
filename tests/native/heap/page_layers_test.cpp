// SPDX-License-Identifier: Apache-2.0
// The layers of heapyard, each by itself: classes, window, map, runs, spans, depot. Random operations, with every
// INVARIANT looked at, and what each block or page holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "consistent_pages.hpp"
#include "heap/allocators/heapyard.hpp"
#include "heap/layers/first_class.hpp"
#include "heap/policy/page_classes.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/layers/backend/page_runs.hpp"
#include "heap/layers/backend/page_window.hpp"
#include "heap/layers/frontend/depot.hpp"
#include "heap/layers/spans/page_spans.hpp"
#include "sanitized.hpp"
#include "test_pages.hpp"

namespace heapyard {
namespace {

using policy::kSmallPage;
using policy::PageClasses;
using test::ScarcePages;

TEST(PageClasses, EveryRequestGetsTheSmallestClassThatServesIt) {
  for (std::size_t bytes = 0; bytes <= PageClasses::kLargest; ++bytes) {
    const unsigned c = PageClasses::class_of(bytes);
    ASSERT_GT(c, 0u);
    ASSERT_LT(c, PageClasses::kClasses);
    ASSERT_GE(PageClasses::bytes_of(c), bytes);
    ASSERT_TRUE(c == 1 || PageClasses::bytes_of(c - 1) < bytes);
    if (PageClasses::is_small(bytes)) {
      ASSERT_EQ(PageClasses::small_class_of(bytes), c);
    }
    if (bytes > 128) {
      ASSERT_LE((PageClasses::bytes_of(c) - bytes) * 8, bytes) << bytes;
    }
  }
}

TEST(PageClasses, AMultipleOfAPowerOfTwoUpToAPageIsAClass) {
  for (std::size_t alignment = 16; alignment <= PageClasses::kMostAligned; alignment *= 2) {
    for (std::size_t bytes = alignment; bytes <= PageClasses::kLargest; bytes += alignment)
      ASSERT_EQ(PageClasses::bytes_of(PageClasses::class_of(bytes)) % alignment, 0u) << bytes << " " << alignment;
  }
}

TEST(PageClasses, EveryByteOfASpanBelongsToItsBlock) {
  for (unsigned c = 1; c < PageClasses::kClasses; ++c) {
    const std::size_t bytes = PageClasses::bytes_of(c);
    for (std::size_t offset = 0; offset < 16 * kSmallPage; ++offset)
      ASSERT_EQ(PageClasses::index_of(c, offset), offset / bytes);
  }
}

TEST(PageClasses, SpansGrowWithTheClassAndWasteAnEighthAtMost) {
  for (unsigned c = 1; c < PageClasses::kClasses; ++c) {
    unsigned before = 0;
    for (std::size_t live = 0; live <= 4 << 20; live += 1 << 12) {
      const unsigned pages = PageClasses::pages_of(c, live), blocks = PageClasses::blocks_of(c, pages);
      ASSERT_GE(pages, before);
      ASSERT_LE(pages, 16u);
      ASSERT_GT(blocks, 0u);
      ASSERT_LE(blocks, PageClasses::kMostBlocks);
      ASSERT_LE((pages * kSmallPage - blocks * PageClasses::bytes_of(c)) * 8, pages * kSmallPage);
      if (before != 0 && pages > before) {
        ASSERT_LE(pages * kSmallPage, live / 8);
      }
      before = pages;
    }
  }
}

using Window = PageWindow<ScarcePages, std::size_t{1} << 30>;
using Runs = PageRuns<PageMap<Window>>;

// The layers up to the runs, as a composition has them.
struct Below {
  Window window;
  PageMap<Window> map{window};
  Runs runs{map};
  Below() {
    ScarcePages::left = SIZE_MAX;
    window.reserve();
    map.lay_out();
  }
  ~Below() {
    ScarcePages::left = SIZE_MAX;
    for (std::uintptr_t at = window.start(); at < window.end(); at += 1 << 26)
      os::unmap(reinterpret_cast<void*>(at), 1 << 26);
  }
};

TEST(PageWindow, BeforeItIsReservedEveryPointerIsOutside) {
  const Window window;
  EXPECT_FALSE(window.contains(nullptr));
  EXPECT_FALSE(window.contains(&window));
  EXPECT_FALSE(window.contains(reinterpret_cast<void*>(UINTPTR_MAX)));
}

TEST(PageWindow, OnlyWhatIsInsideIsInside) {
  Below below;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  EXPECT_FALSE(below.window.contains(nullptr));
  EXPECT_FALSE(below.window.contains(at(below.window.start() - 1)));
  EXPECT_TRUE(below.window.contains(at(below.window.start())));
  EXPECT_TRUE(below.window.contains(at(below.window.end() - 1)));
  EXPECT_FALSE(below.window.contains(at(below.window.end())));
}

#if defined(__SANITIZE_THREAD__)
constexpr bool kWindowIsHeld = true;
#else
constexpr bool kWindowIsHeld = false;
#endif

std::uint64_t* words_of(const Runs& runs, const PageRun* run) {
  return static_cast<std::uint64_t*>(runs.memory_of(run));
}

// Each page of a run holds the run's number.
void fill(const Runs& runs, const PageRun* run, std::uint64_t number) {
  for (std::uint32_t i = 0; i < run->pages; ++i) words_of(runs, run)[i * kSmallPage / 8] = number;
}
bool holds(const Runs& runs, const PageRun* run, std::uint64_t number) {
  for (std::uint32_t i = 0; i < run->pages; ++i) {
    if (words_of(runs, run)[i * kSmallPage / 8] != number) return false;
  }
  return true;
}

TEST(PageRuns, RandomRunsKeepWhatTheyHoldAndZeroMeansZero) {
  Below below;
  Runs& runs = below.runs;
  std::mt19937 random(3);
  std::vector<std::pair<PageRun*, std::uint64_t>> held;
  std::uint64_t next = 1;
  unsigned zero = 0, moves = 0;
  for (int step = 0; step < (test::kSanitized ? 16'000 : 40'000); ++step) {
    const bool more = step % 4000 < 2000 ? random() % 3 != 0 : random() % 3 == 0;
    if (more || held.empty()) {
      const std::uint32_t pages = 1 + random() % (random() % 40 == 0 ? 700 : 17);
      const std::uint32_t alignment = random() % 8 == 0 ? 1u << random() % 8 : 1;
      const auto kind = random() % 2 == 0 && pages <= 16 ? PageRun::kSpan : PageRun::kLarge;
      PageRun* run = runs.allocate(pages, alignment, kind);
      ASSERT_NE(run, nullptr);
      ASSERT_EQ(run->pages, pages);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(runs.memory_of(run)) % (alignment * kSmallPage), 0u);
      if (kind == PageRun::kSpan) below.map.set_class(run, run->size_class = 7);
      if (run->zero) {
        ++zero;
        ASSERT_TRUE(holds(runs, run, 0));
      }
      fill(runs, run, next);
      held.emplace_back(run, next++);
    } else {
      std::swap(held[random() % held.size()], held.back());
      auto [run, number] = held.back();
      ASSERT_TRUE(holds(runs, run, number));
      if (run->kind == PageRun::kLarge && random() % 2 == 0) {
        const std::uint32_t pages = 1 + random() % (run->pages + 20), before = run->pages;
        if (random() % 4 == 0 && pages > before) {
          PageRun* moved = runs.move(run, pages);
          if (moved == nullptr) continue;  // it may be several mappings to the system
          held.back().first = moved;
          ASSERT_EQ(moved->pages, pages);
          for (std::uint32_t i = 0; i < pages; ++i)
            ASSERT_EQ(words_of(runs, moved)[i * kSmallPage / 8], i < before ? number : 0);
          fill(runs, moved, number);
          ++moves;
        } else if (runs.resize(run, pages)) {
          ASSERT_EQ(run->pages, pages);
          for (std::uint32_t i = 0; i < std::min(pages, before); ++i)
            ASSERT_EQ(words_of(runs, run)[i * kSmallPage / 8], number);
          fill(runs, run, number);
        } else {
          ASSERT_GT(pages, before);
        }
        continue;
      }
      held.pop_back();
      if (run->kind == PageRun::kSpan) below.map.set_class(run, 0);
      runs.free(run);
    }
    if (step % 50 == 0) runs.settle();
    if (step % 500 == 0) {
      ASSERT_TRUE(runs.consistent()) << step;
    }
    if (step % 9000 == 8999) runs.trim();
    if (step % 7000 == 6999) runs.shrink();
  }
  EXPECT_GT(zero, 100u);
  if (!kWindowIsHeld) {
    EXPECT_GT(moves, 20u);
  }
  for (auto [run, number] : held) {
    ASSERT_TRUE(holds(runs, run, number));
    if (run->kind == PageRun::kSpan) below.map.set_class(run, 0);
    runs.free(run);
  }
  ASSERT_TRUE(runs.consistent());
  EXPECT_EQ(runs.used_bytes(), 0u);
  runs.trim();
  EXPECT_EQ(runs.dirty_bytes(), 0u);
  EXPECT_TRUE(runs.shrink());
  EXPECT_EQ(runs.there_bytes(), 0u);
  ASSERT_TRUE(runs.consistent());
}

TEST(PageRuns, AddressSpaceThatWentComesBackAsZerosBeforeTheHeapGrows) {
  Below below;
  Runs& runs = below.runs;
  PageRun *large = runs.allocate(2000, 1, PageRun::kLarge), *behind = runs.allocate(1, 1, PageRun::kLarge);
  fill(runs, large, 7);
  void* const memory = runs.memory_of(large);
  const std::size_t there = runs.there_bytes();
  runs.free(large);
  EXPECT_TRUE(runs.shrink());
  EXPECT_LE(runs.there_bytes(), there - 2000 * kSmallPage);
  EXPECT_EQ(runs.dirty_bytes(), 0u);
  ASSERT_TRUE(runs.consistent());
  EXPECT_FALSE(runs.shrink());
  large = runs.allocate(300, 1, PageRun::kLarge);  // a part, and then the rest
  EXPECT_EQ(runs.memory_of(large), memory);
  EXPECT_TRUE(large->zero && holds(runs, large, 0));
  fill(runs, large, 8);
  PageRun *next = runs.allocate(700, 1, PageRun::kLarge), *rest = runs.allocate(900, 1, PageRun::kLarge);
  EXPECT_EQ(runs.memory_of(next), static_cast<char*>(memory) + 300 * kSmallPage);
  EXPECT_LT(runs.memory_of(rest), runs.memory_of(behind));
  EXPECT_TRUE(holds(runs, next, 0) && holds(runs, rest, 0));
  ASSERT_TRUE(runs.consistent());
  for (PageRun* run : {large, next, rest, behind}) runs.free(run);
  EXPECT_TRUE(runs.shrink());
  EXPECT_EQ(runs.there_bytes(), 0u);
}

// A list that grows under a limit on address space.
TEST(PageRuns, ALargeBlockGrowsWhereNoRoomIsLeftForACopy) {
  if (kWindowIsHeld) GTEST_SKIP() << "the window is held, and its pages stay where they are";
  Below below;
  Runs& runs = below.runs;
  PageRun *run = runs.allocate(1500, 1, PageRun::kLarge), *behind = runs.allocate(1, 1, PageRun::kLarge);
  fill(runs, run, 9);
  fill(runs, behind, 10);
  ScarcePages::left = 0;
  EXPECT_EQ(runs.allocate(1600, 1, PageRun::kLarge), nullptr);
  EXPECT_EQ(runs.move(run, 1600), nullptr);
  EXPECT_TRUE(holds(runs, run, 9));
  ScarcePages::left = SIZE_MAX;
  const std::size_t there = runs.there_bytes();
  // The program's own pages lie in the way.
  auto* foreign = static_cast<char*>(runs.memory_of(run)) + there + 1000 * kSmallPage;
  ASSERT_EQ(os::place(foreign, kSmallPage), os::Placed::done);
  *foreign = 1;
  EXPECT_EQ(runs.move(run, 1600), nullptr);
  EXPECT_TRUE(*foreign == 1 && holds(runs, run, 9));
  os::unmap(foreign, kSmallPage);
  run = runs.move(run, 1600);
  ASSERT_NE(run, nullptr);
  EXPECT_LE(runs.there_bytes(), there + 100 * kSmallPage);
  for (std::uint32_t i = 0; i < 1600; ++i) ASSERT_EQ(words_of(runs, run)[i * kSmallPage / 8], i < 1500 ? 9u : 0u);
  EXPECT_TRUE(holds(runs, behind, 10));
  ASSERT_TRUE(runs.consistent());
  runs.free(run);
  runs.free(behind);
  ASSERT_TRUE(runs.consistent());
}

TEST(PageRuns, WhatIsFreeAndDirtyIsTakenBeforeWhatIsNew) {
  Below below;
  PageRun* run = below.runs.allocate(8, 1, PageRun::kLarge);
  PageRun* behind = below.runs.allocate(1, 1, PageRun::kLarge);
  EXPECT_TRUE(run->zero);
  void* const memory = below.runs.memory_of(run);
  below.runs.free(run);
  run = below.runs.allocate(5, 1, PageRun::kLarge);
  EXPECT_EQ(below.runs.memory_of(run), memory);
  EXPECT_FALSE(run->zero);
  below.runs.free(run);
  below.runs.free(behind);
  EXPECT_TRUE(below.runs.consistent());
}

// Memory may not grow while much lies about: what comes new is paid for.
TEST(PageRuns, WhatIsDenseGetsHugePagesOnceTheHeapHasSomeSize) {
  constexpr std::size_t kHuge = Window::kHugePage;
  Below below;
  Runs& runs = below.runs;
  const auto fill = [&](std::size_t bytes, bool dense) {
    std::vector<PageRun*> got;
    for (std::size_t had = 0; had < bytes; had += 16 * kSmallPage) {
      got.push_back(runs.allocate(16, 1, PageRun::kSpan, dense));
      std::memset(runs.memory_of(got.back()), 1, Runs::bytes_of(got.back()));
    }
    return got;
  };
  ScarcePages::preferred = 0;
  fill(Runs::kHugeFrom * kSmallPage, true);
  EXPECT_EQ(ScarcePages::preferred, 0u);
  fill(4 * kHuge, false);
  EXPECT_EQ(ScarcePages::preferred, 0u);
  const auto dense = fill(8 * kHuge, true);
  EXPECT_GE(ScarcePages::preferred, 5 * kHuge);  // the rest of the last piece, and up to the next place, came before
  EXPECT_LE(ScarcePages::preferred, 8 * kHuge);
  EXPECT_EQ(ScarcePages::preferred % kHuge, 0u);
  ScarcePages::refused = 0;
  for (PageRun* run : dense) runs.free(run);
  runs.trim();
  EXPECT_GE(ScarcePages::refused, ScarcePages::preferred);
  EXPECT_TRUE(runs.consistent());
}

TEST(PageRuns, WithoutRoomForAHugePageAHeapGrowsByWhatItNeeds) {
  Below below;
  Runs& runs = below.runs;
  std::size_t pages = 0;
  while (pages < 2 * Runs::kHugeFrom) pages += runs.allocate(16, 1, PageRun::kSpan, true)->pages;
  std::size_t before = 0;
  do {  // until all that is mapped is in use
    before = runs.there_bytes();
    ASSERT_NE(runs.allocate(1, 1, PageRun::kSpan, true), nullptr);
  } while (runs.there_bytes() == before);
  for (PageRun* run = nullptr; (ScarcePages::left = 0, run = runs.allocate(1, 1, PageRun::kSpan, true)) != nullptr;) {
  }
  ScarcePages::left = SIZE_MAX;
  EXPECT_NE(runs.allocate(1, 1, PageRun::kSpan, true), nullptr);
  EXPECT_TRUE(runs.consistent());
}

TEST(PageRuns, AHeapThatGrowsGivesBackWhatItDoesNotUse) {
  Below below;
  Runs& runs = below.runs;
  std::vector<PageRun*> small;
  for (int i = 0; i < 4000; ++i) small.push_back(runs.allocate(1, 1, PageRun::kLarge));
  for (std::size_t i = 0; i < small.size(); i += 2) runs.free(small[i]);  // holes, of one page each
  EXPECT_EQ(runs.dirty_bytes(), 2000 * kSmallPage);
  std::vector<PageRun*> large;
  for (int i = 0; i < 1000; ++i) {
    large.push_back(runs.allocate(2, 1, PageRun::kLarge));
    runs.settle();
    runs.settle();
  }
  // 4,000 pages were in use at the peak, and an eighth more may be there.
  EXPECT_LE(runs.dirty_bytes() + runs.used_bytes(),
            (4000 + 4000 * PageBudget::kShare / 1024 + PageBudget::kSlack + 2) * kSmallPage);
  EXPECT_TRUE(runs.consistent());
}

TEST(PageRuns, WithoutMemoryThereIsNoRunAndNothingIsLost) {
  Below below;
  for (std::size_t left = 0; left < 12; ++left) {
    ScarcePages::left = left;
    std::vector<PageRun*> held;
    while (PageRun* run = below.runs.allocate(100, left % 2 == 0 ? 1 : 4, PageRun::kLarge)) held.push_back(run);
    ASSERT_TRUE(below.runs.consistent());
    for (PageRun* run : held) below.runs.free(run);
    ASSERT_TRUE(below.runs.consistent());
    ASSERT_EQ(below.runs.used_bytes(), 0u);
  }
  EXPECT_GT(below.runs.there_bytes(), 0u);
}

TEST(PageRuns, WithoutAWindowThereIsNoRun) {
  Window window;
  PageMap<Window> map{window};
  Runs runs{map};
  map.lay_out();
  EXPECT_EQ(runs.allocate(1, 1, PageRun::kSpan), nullptr);
  EXPECT_FALSE(runs.shrink());
  runs.trim();
  EXPECT_EQ(runs.there_bytes(), 0u);
}

// The window of a gibibyte is full at last, and serves again what comes back.
TEST(PageRuns, AWindowThatIsFullGivesNoMore) {
  Below below;
  std::vector<PageRun*> held;
  while (PageRun* run = below.runs.allocate(5000, 1, PageRun::kLarge)) held.push_back(run);
  EXPECT_GT(held.size(), 40u);
  EXPECT_TRUE(below.runs.consistent());
  below.runs.free(held.back());
  EXPECT_NE(below.runs.allocate(5000, 1, PageRun::kLarge), nullptr);
}

using Spans = PageSpans<Runs, ScarcePages>;

TEST(PageSpans, RandomBlocksAreApartAndKeepWhatTheyHold) {
  Below below;
  Spans spans{below.runs};
  unsigned part = 0;
  std::mt19937 random(9);
  std::map<char*, std::pair<unsigned, unsigned char>> held;  // by address
  for (int step = 0; step < (test::kSanitized ? 12'000 : 30'000); ++step) {
    const bool more = step % 6000 < 3000 ? random() % 3 != 0 : random() % 3 == 0;
    const unsigned c = 1 + random() % (random() % 10 == 0 ? PageClasses::kClasses - 1 : 30);
    if (more || held.empty()) {
      void* blocks[20];
      const unsigned n = 1 + random() % 20, got = spans.allocate(c, blocks, n, part);
      ASSERT_GT(got, 0u);
      ASSERT_LE(got, n);
      for (unsigned i = 0; i < got; ++i) {
        auto* const block = static_cast<char*>(blocks[i]);
        ASSERT_EQ(PageMap<Window>::class_of(below.window, block), c);
        const auto behind = held.lower_bound(block);
        ASSERT_TRUE(behind == held.end() || block + PageClasses::bytes_of(c) <= behind->first);
        if (behind != held.begin()) {
          const auto before = std::prev(behind);
          ASSERT_LE(before->first + PageClasses::bytes_of(before->second.first), block);
        }
        const auto value = static_cast<unsigned char>(random());
        std::memset(block, value, PageClasses::bytes_of(c));
        held[block] = {c, value};
      }
    } else {
      // Some of one class, from an arbitrary one on.
      auto at = std::next(held.begin(), static_cast<long>(random() % std::min<std::size_t>(held.size(), 500)));
      const unsigned of = at->second.first;
      std::vector<void*> blocks;
      while (at != held.end() && blocks.size() < 25) {
        if (at->second.first != of) {
          ++at;
          continue;
        }
        const std::size_t bytes = PageClasses::bytes_of(of);
        ASSERT_TRUE(std::all_of(at->first, at->first + bytes,
                                [&](char byte) { return static_cast<unsigned char>(byte) == at->second.second; }));
        blocks.push_back(at->first);
        at = held.erase(at);
      }
      spans.free(of, blocks.data(), static_cast<unsigned>(blocks.size()));
    }
    if (step % 500 == 0) {
      ASSERT_TRUE(spans.consistent() && below.runs.consistent());
    }
  }
  std::size_t bytes = 0;
  for (const auto& [block, what] : held) bytes += PageClasses::bytes_of(what.first);
  EXPECT_EQ(spans.used_bytes(), bytes);
  for (const auto& [block, what] : held) {
    void* one = block;
    spans.free(what.first, &one, 1);
  }
  EXPECT_EQ(spans.used_bytes(), 0u);
  EXPECT_EQ(below.runs.used_bytes(), 0u);  // an empty span went back at once
  EXPECT_TRUE(spans.consistent() && below.runs.consistent());
}

TEST(PageSpans, BlocksComeFromTheLowestAddress) {
  Below below;
  Spans spans{below.runs};
  unsigned part = 0;
  std::vector<void*> blocks(1000);
  for (void*& block : blocks) ASSERT_EQ(spans.allocate(4, &block, 1, part), 1u);
  for (const std::size_t freed : {900ul, 500ul, 100ul, 700ul}) spans.free(4, &blocks[freed], 1);
  std::vector<void*> again(4);
  for (void*& block : again) ASSERT_EQ(spans.allocate(4, &block, 1, part), 1u);
  EXPECT_TRUE(std::is_sorted(again.begin(), again.end()));
}

TEST(PageSpans, TheFirstFewBlocksOfAClassMayBeOfALargerOne) {
  Below below;
  Spans spans{below.runs};
  unsigned part = 0;
  EXPECT_EQ(spans.borrow(3), nullptr);  // there is no span
  void* blocks[2];
  ASSERT_EQ(spans.allocate(5, blocks, 1, part), 1u);
  EXPECT_EQ(spans.borrow(2), nullptr);  // of more than twice the size
  EXPECT_EQ(spans.borrow(5), nullptr);
  EXPECT_EQ(spans.borrow(PageClasses::kClasses - 1), nullptr);
  std::set<void*> borrowed;
  while (void* block = spans.borrow(4)) borrowed.insert(block);
  EXPECT_EQ(borrowed.size(), 4u);
  for (void* block : borrowed) {
    EXPECT_EQ(PageMap<Window>::class_of(below.window, block), 5u);
    spans.free(5, &block, 1);
  }
  EXPECT_EQ(spans.used_bytes(), PageClasses::bytes_of(5));
  ASSERT_NE(below.runs.allocate(65, 1, PageRun::kLarge), nullptr);
  EXPECT_EQ(spans.borrow(3), nullptr);  // much is in use
  EXPECT_TRUE(spans.consistent());
}

TEST(PageSpans, ABlockThatIsFreedTwiceCountsOnce) {
  Below below;
  Spans spans{below.runs};
  unsigned part = 0;
  void* blocks[2];
  ASSERT_EQ(spans.allocate(3, blocks, 2, part), 2u);
  spans.free(3, blocks, 1);
  spans.free(3, blocks, 1);
  EXPECT_EQ(spans.used_bytes(), PageClasses::bytes_of(3));
  EXPECT_TRUE(spans.consistent());
}

// And those that meet part: what they free belongs to several parts then.
TEST(PageSpans, ThreadsLoseNoBlock) {
  Below below;
  ScarcePages::left = SIZE_MAX;
  Spans spans{below.runs};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<void*> held[5];
      unsigned part = 0;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      for (int step = 0; step < 8000 || spans.there() == 1; ++step) {
        if (std::chrono::steady_clock::now() > end) break;
        const unsigned c = 1 + random() % 4;
        void* blocks[16];
        if (random() % 2 == 0) {
          const unsigned n = spans.allocate(c, blocks, 1 + random() % 16, part);
          for (unsigned i = 0; i < n; ++i) {
            *static_cast<unsigned*>(blocks[i]) = t;
            held[c].push_back(blocks[i]);
          }
        } else {
          const auto n = std::min<std::size_t>(held[c].size(), random() % 16);
          for (std::size_t i = 0; i < n; ++i) {
            std::swap(held[c][random() % held[c].size()], held[c].back());
            if (*static_cast<unsigned*>(held[c].back()) != t) ++wrong;
            blocks[i] = held[c].back();
            held[c].pop_back();
          }
          spans.free(c, blocks, static_cast<unsigned>(n));
        }
      }
      for (unsigned c = 1; c < 5; ++c) spans.free(c, held[c].data(), static_cast<unsigned>(held[c].size()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(spans.there(), Spans::kParts);
  EXPECT_EQ(spans.used_bytes(), 0u);
  EXPECT_EQ(below.runs.used_bytes(), 0u);
  EXPECT_TRUE(spans.consistent() && below.runs.consistent());
}

TEST(PageSpans, WithoutMemoryForMorePartsThereIsOne) {
  Below below;
  ScarcePages::left = 0;
  Spans spans{below.runs};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      unsigned part = 0;
      void* blocks[8];
      for (int step = 0; step < 4000; ++step) spans.free(2, blocks, spans.allocate(2, blocks, 8, part));
      EXPECT_EQ(part, 0u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ScarcePages::left = SIZE_MAX;
  EXPECT_EQ(spans.there(), 1u);
  EXPECT_EQ(spans.used_bytes(), 0u);
}

TEST(Depot, BatchesComeOutAsTheyWentInAndNeverBeyondTheBudget) {
  Depot<PageClasses, ScarcePages> depot;
  ScarcePages::left = SIZE_MAX;
  void* in[30];
  for (std::size_t i = 0; i < std::size(in); ++i) in[i] = reinterpret_cast<void*>(16 * (i + 1));
  void* out[30];
  EXPECT_EQ(depot.get(2, out), 0u);
  EXPECT_TRUE(depot.put(2, in, 30, 2000));
  EXPECT_EQ(depot.bytes(), 30 * PageClasses::bytes_of(2));
  EXPECT_FALSE(depot.put(2, in, 40 / 32 + 29, 1900));  // 960 bytes lie there
  EXPECT_TRUE(depot.put(3, in, 7, 2000));
  EXPECT_EQ(depot.get(3, out), 7u);
  EXPECT_TRUE(std::equal(in, in + 7, out));
  EXPECT_EQ(depot.get(3, out), 0u);
  EXPECT_EQ(depot.get(2, out), 30u);
  EXPECT_TRUE(std::equal(in, in + 30, out));
  EXPECT_EQ(depot.bytes(), 0u);
}

TEST(Depot, AThreadLooksOnTheShelfOfItsPartFirst) {
  Depot<PageClasses, ScarcePages, 3> depot;
  ScarcePages::left = SIZE_MAX;
  void *first = &depot, *second = &first, *out = nullptr;
  EXPECT_TRUE(depot.put(2, &first, 1, 100, 0));
  EXPECT_TRUE(depot.put(2, &second, 1, 100, 2));
  EXPECT_EQ(depot.bytes(), 2 * PageClasses::bytes_of(2));
  EXPECT_EQ(depot.get(2, &out, 2), 1u);
  EXPECT_EQ(out, second);
  EXPECT_EQ(depot.get(2, &out, 2), 1u);  // from another
  EXPECT_EQ(out, first);
  EXPECT_EQ(depot.get(2, &out, 1), 0u);
  EXPECT_EQ(depot.bytes(), 0u);
}

TEST(Depot, WithoutMemoryForABatchItTakesNone) {
  Depot<PageClasses, ScarcePages> depot;
  ScarcePages::left = 0;
  void* block = nullptr;
  EXPECT_FALSE(depot.put(1, &block, 1, SIZE_MAX));
  ScarcePages::left = SIZE_MAX;
  EXPECT_EQ(depot.bytes(), 0u);
}

TEST(Depot, EachBatchIsTakenOnceThoughManyPutAndGet) {
  Depot<PageClasses, ScarcePages> depot;
  ScarcePages::left = SIZE_MAX;
  constexpr std::size_t kBlocks = 30'000;
  std::vector<std::atomic<int>> seen(kBlocks);
  std::vector<std::thread> threads;
  const auto count = [&](void* const* blocks, unsigned n) {
    for (unsigned i = 0; i < n; ++i) ++seen[reinterpret_cast<std::uintptr_t>(blocks[i]) - 1];
  };
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      void* blocks[30];
      for (std::size_t at = t * 3; at + 3 <= kBlocks; at += 12) {
        for (std::size_t i = 0; i < 3; ++i) blocks[i] = reinterpret_cast<void*>(at + i + 1);
        if (!depot.put(1, blocks, 3, SIZE_MAX)) count(blocks, 3);
        if (at % 2 == 0) count(blocks, depot.get(1, blocks));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  void* blocks[30];
  while (const unsigned n = depot.get(1, blocks)) count(blocks, n);
  for (const std::atomic<int>& one : seen) ASSERT_EQ(one.load(), 1);
}

// As a whole, for what the front end keeps.
struct WholeWindow : PageWindow<ScarcePages, std::size_t{2} << 30> {};
using Whole = HeapyardParts<ScarcePages, WholeWindow>;
using WholeHeap = PageHeap<Whole>;

TEST(Magazines, WhatAThreadKeepsStaysWithinItsBudget) {
  ScarcePages::left = SIZE_MAX;
  std::thread([] {
    std::mt19937 random(4);
    std::vector<void*> held;
    for (int step = 0; step < 200'000; ++step) {
      if (held.size() < 3000 || (step % 20'000 < 10'000 && random() % 2 == 0)) {
        held.push_back(WholeHeap::allocate(random() % (random() % 20 == 0 ? 30'000 : 2'000)));
        ASSERT_NE(held.back(), nullptr);
      } else {
        std::swap(held[random() % held.size()], held.back());
        WholeHeap::free(held.back());
        held.pop_back();
      }
      if (step % 1000 == 999) {
        const std::size_t most = Whole::Front::kBase + Whole::runs.used_bytes() / Whole::Front::kShare;
        ASSERT_LE(Whole::front.free_bytes(), most + most / 4) << step;
      }
    }
    for (void* block : held) WholeHeap::free(block);
  }).join();
  EXPECT_EQ(Whole::front.free_bytes(), 0u);
  EXPECT_EQ(Whole::runs.used_bytes(), 0u);
  EXPECT_TRUE(Whole::runs.consistent() && Whole::pool.consistent());
}

// Sixty of them in an array may keep as many spans.
TEST(Magazines, BlocksOfAClassThatIsNoLongerUsedGoToTheirSpans) {
  ScarcePages::left = SIZE_MAX;
  std::thread([] {
    std::vector<void*> blocks(20'000);
    for (void*& block : blocks) block = WholeHeap::allocate(96);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(5));
    for (void* block : blocks) WholeHeap::free(block);
    EXPECT_GT(Whole::runs.used_bytes(), std::size_t{500} << 10);
    std::vector<void*> others(64);
    for (int turn = 0; turn < 200; ++turn) {
      for (void*& block : others) block = WholeHeap::allocate(4000);
      for (void* block : others) WholeHeap::free(block);
    }
    EXPECT_LT(Whole::runs.used_bytes(), std::size_t{100} << 10);
  }).join();
  EXPECT_EQ(Whole::runs.used_bytes(), 0u);
}

// One thread allocates what another frees: the depot passes on whole batches, and keeps no more than its budget.
TEST(Magazines, BlocksThatAnotherThreadFreesComeBack) {
  ScarcePages::left = SIZE_MAX;
  std::atomic<void*> slots[256] = {};
  std::atomic<bool> done{false};
  std::thread consumer([&] {
    while (!done) {
      for (std::atomic<void*>& slot : slots) {
        if (void* block = slot.exchange(nullptr)) WholeHeap::free(block);
      }
    }
  });
  std::size_t peak = 0;
  for (int step = 0; step < 300'000; ++step) {
    void* const block = WholeHeap::allocate(100);
    ASSERT_NE(block, nullptr);
    std::memset(block, step, 100);
    if (void* old = slots[step % 256].exchange(block)) WholeHeap::free(old);
    if (step % 1000 == 0) peak = std::max(peak, Whole::runs.used_bytes());
  }
  done = true;
  consumer.join();
  for (std::atomic<void*>& slot : slots) {
    if (void* block = slot.exchange(nullptr)) WholeHeap::free(block);
  }
  EXPECT_LT(peak, std::size_t{1} << 20);  // 256 blocks of 112 bytes live
  WholeHeap::trim();
  EXPECT_EQ(WholeHeap::usage().held(), 0u);
}

TEST(PageHeap, ALargeBlockGrowsByMovingItsPages) {
  ScarcePages::left = SIZE_MAX;
  std::size_t bytes = std::size_t{2} << 20;
  auto* block = static_cast<unsigned char*>(WholeHeap::allocate(bytes));
  void* const behind = WholeHeap::allocate(std::size_t{1} << 20);  // so that it cannot grow where it is
  for (std::size_t i = 0; i < bytes; i += 1000) block[i] = static_cast<unsigned char>(i / 1000);
  EXPECT_FALSE(WholeHeap::resize(block, 2 * bytes));
  auto* const moved = static_cast<unsigned char*>(WholeHeap::move(block, 2 * bytes));
  if (moved == nullptr) GTEST_SKIP() << "this kernel cannot leave the mapping behind";
  EXPECT_NE(moved, block);
  EXPECT_GE(WholeHeap::usable(moved), 2 * bytes);
  for (std::size_t i = 0; i < bytes; i += 1000) ASSERT_EQ(moved[i], static_cast<unsigned char>(i / 1000));
  // What it left behind is zero, and known to be.
  auto* const zeroed = static_cast<unsigned char*>(WholeHeap::allocate_zeroed(bytes));
  for (std::size_t i = 0; i < bytes; i += 1000) ASSERT_EQ(zeroed[i], 0);
  for (void* each : {static_cast<void*>(moved), behind, static_cast<void*>(zeroed)}) WholeHeap::free(each);
  EXPECT_TRUE(Whole::runs.consistent());
}

TEST(PageHeap, WhatIsNoBlockIsLeftAlone) {
  ScarcePages::left = SIZE_MAX;
  WholeHeap::free(nullptr);
  auto* const large = static_cast<char*>(WholeHeap::allocate(100'000));
  const std::size_t held = WholeHeap::usage().held();
  WholeHeap::free(large + 8192);  // inside of it
  EXPECT_EQ(WholeHeap::usage().held(), held);
  WholeHeap::free(large);
  WholeHeap::free(large);  // twice
  EXPECT_TRUE(Whole::runs.consistent());
}

// Blocks of three heaps and of none, by turns, filled and looked at again; a heap goes now and then.
TEST(FirstClassHeaps, KeepWhatTheyHoldAndLeaveNothing) {
  using Heaps = FirstClass<WholeHeap>;
  ScarcePages::left = SIZE_MAX;
  const std::size_t before = Whole::runs.used_bytes();
  std::thread([] {
    struct Held {
      void* block;
      std::size_t bytes;
      unsigned char value, heap;
    };
    std::mt19937 random(6);
    Heaps::Heap* heaps[3] = {Heaps::make(), Heaps::make(), Heaps::make()};
    std::vector<Held> held;
    for (int step = 0; step < (test::kSanitized ? 12'000 : 40'000); ++step) {
      const unsigned heap = random() % 4;
      if (held.size() < 200 || random() % 2 == 0) {
        const std::size_t bytes = random() % (random() % 50 == 0 ? 200'000 : 3'000);
        void* block = heap == 3 ? WholeHeap::allocate(bytes) : Heaps::allocate(heaps[heap], bytes, 16, false);
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(Heaps::of(block), heap == 3 ? nullptr : heaps[heap]);
        std::memset(block, step, bytes);
        held.push_back({block, bytes, static_cast<unsigned char>(step), static_cast<unsigned char>(heap)});
      } else if (random() % 5000 == 0 && heap != 3) {
        std::erase_if(held, [&](const Held& one) { return one.heap == heap; });
        ASSERT_TRUE(Heaps::destroy(heaps[heap]));
        heaps[heap] = Heaps::make();
      } else {
        std::swap(held[random() % held.size()], held.back());
        const auto* bytes = static_cast<const unsigned char*>(held.back().block);
        ASSERT_TRUE(std::all_of(bytes, bytes + held.back().bytes, [&](auto is) { return is == held.back().value; }));
        WholeHeap::free(held.back().block);
        held.pop_back();
      }
      ASSERT_TRUE(step % 5000 != 0 || (Whole::runs.consistent() && Whole::pool.consistent()));
    }
    for (const Held& one : held) {
      if (one.heap == 3) WholeHeap::free(one.block);
    }
    for (Heaps::Heap* heap : heaps) ASSERT_TRUE(Heaps::destroy(heap));
  }).join();
  WholeHeap::trim();  // the depot may have blocks
  EXPECT_EQ(Whole::runs.used_bytes(), before);
  EXPECT_EQ(WholeHeap::FirstClassHeaps::span_bytes(), 0u);
  EXPECT_TRUE(Whole::runs.consistent());
}

// Whatever fails for want of a mapping, nothing is lost, and all goes.
TEST(FirstClassHeaps, WithoutMemoryThereIsNullAndNothingIsLost) {
  using Heaps = FirstClass<WholeHeap>;
  ScarcePages::left = SIZE_MAX;
  std::thread([] {
    WholeHeap::free(WholeHeap::allocate(1));
    WholeHeap::trim();
    for (std::size_t granted = 0; granted < 12; ++granted) {
      ScarcePages::left = granted;
      Heaps::Heap* heap = Heaps::make();
      unsigned got = 0;
      for (std::size_t bytes = 1; heap != nullptr && bytes < (std::size_t{64} << 20); bytes *= 2)
        got += Heaps::allocate(heap, bytes, 16, true) != nullptr;
      ScarcePages::left = SIZE_MAX;
      ASSERT_TRUE(heap == nullptr ? got == 0 : Heaps::destroy(heap));
      ASSERT_TRUE(Whole::runs.consistent());
    }
  }).join();
  EXPECT_EQ(WholeHeap::FirstClassHeaps::span_bytes(), 0u);
}

TEST(PageRuns, AsManyPagesAsALimitAllows) {
  Window window;
  PageMap<Window> map(window);
  Runs runs(map);
  ScarcePages::left = SIZE_MAX;
  window.reserve();
  map.lay_out();
  constexpr std::size_t kMost = 64;
  runs.budget().limit().set(kMost * kSmallPage);
  PageRun* large = runs.allocate(60, 1, PageRun::kLarge);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(runs.allocate(5, 1, PageRun::kLarge), nullptr);
  EXPECT_FALSE(runs.resize(large, kMost + 1));
  EXPECT_TRUE(runs.resize(large, kMost));
  EXPECT_EQ(runs.allocate(1, 1, PageRun::kSpan), nullptr);
  EXPECT_FALSE(runs.budget().limit().claim(1, runs.used_bytes()));
  runs.free(large);
  EXPECT_TRUE(runs.budget().limit().claim((kMost - 1) * kSmallPage, runs.used_bytes()));
  EXPECT_EQ(runs.allocate(2, 1, PageRun::kSpan), nullptr);
  PageRun* one = runs.allocate(1, 1, PageRun::kSpan);
  ASSERT_NE(one, nullptr);
  runs.free(one);
  runs.settle();
  EXPECT_LE(runs.dirty_bytes(), kSmallPage);  // what is free and dirty counts too
  EXPECT_TRUE(runs.consistent());
}

}  // namespace
}  // namespace heapyard
