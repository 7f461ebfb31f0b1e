// SPDX-License-Identifier: Apache-2.0
// Whole compositions, as objects beside the malloc that serves this test: threads, blocks that cross them, scarce
// memory, re-entry.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "examples/heap/fourth.hpp"
#include "heap/allocators/bfm.hpp"
#include "heap/allocators/elfmalloc.hpp"
#include "heap/allocators/heapyard.hpp"
#include "heap/allocators/scalloc.hpp"
#include "consistent_pages.hpp"
#include "consistent_tree.hpp"
#include "test_pages.hpp"
#include "test_samples.hpp"

// QEMU 7.2 calls signal handlers with a stack that is not aligned; what a handler calls may use aligned instructions.
#if defined(__x86_64__)
#define ON_AN_ALIGNED_STACK [[gnu::force_align_arg_pointer]]
#else
#define ON_AN_ALIGNED_STACK
#endif

namespace heapyard {
namespace {

using test::ScarcePages;
using Full = BfmParts<BfmSteps, 8, kBfmDepth, GiveBack, ScarcePages>;
using Coarse = BfmParts<BfmCoarseSteps, 8, kBfmDepth, KeepLast, ScarcePages>;
using OneCached = BfmParts<BfmSteps, 1, kBfmDepth, GiveBack, ScarcePages>;
using One = BfmPartsNoCache<BfmSteps, 1, ScarcePages>;
using Several = BfmPartsNoCache<BfmSteps, 8, ScarcePages>;
template <class Choices>
struct Scarce : Choices {
  using Pages = ScarcePages;
  using Spans = VirtualSpans<ScarcePages, Choices::Classes::kVirtualSpan, kScallocColours, std::size_t{1} << 30>;
};
using Spans = ScallocParts<Scarce<ScallocDefaults>>;
using PerCore = ScallocParts<Scarce<ScallocPerCore>>;
using Stacks = ScallocParts<Scarce<ScallocWithStacks>>;
using Lazy = ScallocParts<Scarce<ScallocLazy>>;
using SmallSpans = ScallocParts<Scarce<ScallocSpansOf<std::size_t{256} << 10>>>;
struct SharedTablesChoices : Scarce<ScallocSpansOf<std::size_t{64} << 10>> {};
struct SharedTables : ScallocParts<SharedTablesChoices> {
  using Large = BestFitTree<Outside, HugeSteps<Outside>>;
  static inline constinit Large large;
  using Tight = TightOver<Large>;
  static inline constinit Tight tight{large};
};
using WholeSpans = ScallocParts<Scarce<ScallocSpansOf<std::size_t{2} << 20, true>>>;
using ElfSpans = VirtualSpans<ScarcePages, policy::slab::kBigPage, 1, std::size_t{1} << 30>;
using Elf = ElfmallocParts<MagazineCapacity, ScarcePages, ElfSpans>;
using ElfOwn = ElfmallocParts<OwnSlabOnly, ScarcePages, ElfSpans>;
using Own = HeapyardParts<ScarcePages, PageWindow<ScarcePages, std::size_t{1} << 30>>;
// That count for the tracer; with somebody who listens.
using BfmCounting = BfmParts<BfmSteps, 8, kBfmDepth, GiveBack, ScarcePages, HugeSteps, Sampled>;
using SpansCounting = ScallocParts<Scarce<ScallocWithSamples>>;
using ElfCounting = ElfmallocParts<MagazineCapacity, ScarcePages, ElfSpans, Sampled>;
struct Mixed : ScallocParts<Scarce<ScallocDefaults>, struct MixedTag> {
  using Large = BestFitTree<Outside, HugeSteps<Outside>>;
  static inline constinit Large large;
  using Tight = TightOver<Large>;
  static inline constinit Tight tight{large};
};

// heapyard has a shell of its own.
template <class Parts>
concept OfPages = requires { typename Parts::Runs; };
template <class Parts>
struct ShellOf {
  using Heap = HeapShell<Parts>;
};
template <OfPages Parts>
struct ShellOf<Parts> {
  using Heap = PageHeap<Parts>;
};
template <class Parts>
using HeapOf = typename ShellOf<Parts>::Heap;

// Whether blocks have one size each, so that none can be resized in place.
template <class Parts>
concept OneSizeEach = OfPages<Parts> || requires { requires Parts::Tight::kPacks; };

template <class Parts>
bool consistent() {
  if constexpr (OfPages<Parts>) {
    return Parts::runs.consistent() && Parts::pool.consistent();
  } else if constexpr (OneSizeEach<Parts>) {
    return HeapOf<Parts>::usage().free <= HeapOf<Parts>::usage().mapped;
  } else {
    std::size_t blocks;
    return Parts::large.consistent(&blocks) && Parts::pool.consistent();
  }
}

// A block remembers what it was filled with in its first byte.
void fill(void* block, std::size_t bytes, unsigned char value) { std::memset(block, value, bytes); }
bool filled(const void* block, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(block);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at[i] != at[0]) return false;
  }
  return true;
}

template <class Parts>
class Composition : public testing::Test {
 protected:
  using Heap = HeapOf<Parts>;
  void SetUp() override {
    ScarcePages::left = SIZE_MAX;
    if (Heap::kSampled) test::listen();
  }
  void TearDown() override {
    ScarcePages::left = ScarcePages::most = SIZE_MAX;
    test::listen_no_more();
  }

  static void check() { ASSERT_TRUE(consistent<Parts>()); }

  // Runs in a thread of its own, so that everything it caches is given back.
  template <class Work>
  static void in_thread(Work work) {
    std::thread(work).join();
  }
};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // slower: variants are left to the other builds
using Compositions = testing::Types<Full, Spans, PerCore, Elf, Own, Stacks, BfmCounting, SpansCounting, ElfCounting>;
#else
using Compositions =
    testing::Types<Full, Coarse, OneCached, One, Several, Spans, PerCore, Lazy, SmallSpans, WholeSpans, Elf, ElfOwn,
                   Own, Mixed, Stacks, SharedTables, BfmCounting, SpansCounting, ElfCounting>;
#endif
struct Names {
  template <class Parts>
  static std::string GetName(int at) {
    if (std::is_same_v<Parts, Full>) return "Bfm";
    if (std::is_same_v<Parts, Spans>) return "Scalloc";
    if (std::is_same_v<Parts, PerCore>) return "ScallocPerCore";
    if (std::is_same_v<Parts, Stacks>) return "ScallocStack";
    if (std::is_same_v<Parts, Elf>) return "Elfmalloc";
    if (std::is_same_v<Parts, Own>) return "Heapyard";
    if (std::is_same_v<Parts, BfmCounting>) return "BfmSampled";
    if (std::is_same_v<Parts, SpansCounting>) return "ScallocSampled";
    if (std::is_same_v<Parts, ElfCounting>) return "ElfmallocSampled";
    return "Variant" + std::to_string(at);
  }
};
TYPED_TEST_SUITE(Composition, Compositions, Names);

TYPED_TEST(Composition, EverySizeIsServedAlignedAndWritable) {
  using Heap = HeapOf<TypeParam>;
  for (std::size_t bytes = 0; bytes < 3000; ++bytes) {
    void* block = Heap::allocate(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % (bytes <= 8 ? 8 : 16), 0u);
    ASSERT_GE(Heap::usable(block), bytes);
    fill(block, Heap::usable(block), 1);
    for (std::size_t alignment = 1; alignment <= 1u << 16; alignment *= 4) {
      void* aligned = Heap::allocate_aligned(bytes, alignment);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % alignment, 0u);
      fill(aligned, bytes, 2);
      Heap::free(aligned);
    }
    ASSERT_TRUE(filled(block, bytes));
    Heap::free(block);
  }
  this->check();
}

TYPED_TEST(Composition, AnAlignedBlockOfNoBytesIsABlockOfItsOwn) {
  using Heap = HeapOf<TypeParam>;
  for (std::size_t alignment = 16; alignment <= 4096; alignment *= 2) {
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 100; ++i) {
        blocks.push_back(Heap::allocate_aligned(0, alignment));
        blocks.push_back(Heap::allocate(alignment));
      }
      ASSERT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
      if (round == 1) {
        for (void* block : blocks) Heap::free(block);
        blocks.clear();
      }
    }
    for (void* block : blocks) Heap::free(block);
  }
  this->check();
}

TYPED_TEST(Composition, ZeroedMemoryIsZeroAfterUse) {
  using Heap = HeapOf<TypeParam>;
  for (const std::size_t bytes : {8ul, 100ul, 5'000ul, 3'000'001ul}) {
    for (int round = 0; round < 3; ++round) {
      auto* block = static_cast<unsigned char*>(Heap::allocate_zeroed(bytes));
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(block[i], 0);
      fill(block, bytes, 0xEE);
      Heap::free(block);
    }
  }
}

TYPED_TEST(Composition, ThreadsExchangeBlocksAndEverythingComesBack) {
  using Heap = HeapOf<TypeParam>;
  constexpr int kThreads = 6, kSteps = 20'000, kSlots = 300;
  const std::size_t before = Heap::usage().held();
  std::array<std::atomic<void*>, kSlots> shared{};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int step = 0; step < kSteps; ++step) {
        const std::size_t bytes = 8 + random() % (random() % 50 == 0 ? 20'000 : 600);
        auto* block = static_cast<unsigned char*>(Heap::allocate(bytes));
        fill(block, bytes, static_cast<unsigned char>(random()));
        std::memcpy(block + 1, &block[0], 1);
        void* old = shared[random() % kSlots].exchange(block);
        if (old != nullptr) {
          if (!filled(old, 8)) ++wrong;
          Heap::free(old);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<void*>& slot : shared) {
    if (void* block = slot.exchange(nullptr)) Heap::free(block);
  }
  EXPECT_EQ(wrong.load(), 0);
  this->check();
  EXPECT_LE(Heap::usage().held(), before);
}

// Whatever threads that live or have ended keep for later is free.
TYPED_TEST(Composition, InUseIsWhatTheProgramHoldsAndNothingElse) {
  using Heap = HeapOf<TypeParam>;
  constexpr std::size_t kBeside = Heap::kSampled ? 640 : 64;  // bytes of a prefix; of what a sample takes at least
  std::mt19937 random(5);
  std::vector<void*> blocks;
  std::atomic<int> ready{0};
  std::atomic<bool> done{false};
  const std::size_t before = Heap::usage().held();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 sizes(t);
      std::vector<void*> mine;
      for (int i = 0; i < 2000; ++i) mine.push_back(Heap::allocate(sizes() % (sizes() % 20 == 0 ? 20'000 : 900)));
      for (void* block : mine) Heap::free(block);
      ++ready;
      while (t % 2 == 0 && !done) usleep(100);
    });
  }
  while (ready != 4) usleep(100);
  threads[1].join();
  threads[3].join();
  std::size_t held = 0;
  for (int i = 0; i < 4000; ++i) {
    void* block = Heap::allocate(random() % (random() % 20 == 0 ? 20'000 : 900));
    if (i % 4 == 0) {
      held += Heap::usable(block);
      blocks.push_back(block);
    } else {
      Heap::free(block);
    }
  }
  const std::size_t now = Heap::usage().held();
  EXPECT_GE(now, before + held);
  EXPECT_LE(now, before + held + kBeside * blocks.size());
  for (void* block : blocks) Heap::free(block);
  EXPECT_EQ(Heap::usage().held(), before);
  done = true;
  threads[0].join();
  threads[2].join();
  EXPECT_EQ(Heap::usage().held(), before);
}

TYPED_TEST(Composition, ManyShortThreadsNeedNoMoreMemoryThanOne) {
  using Heap = HeapOf<TypeParam>;
  const auto work = [] {
    std::vector<void*> blocks;
    for (std::size_t bytes = 8; bytes < 1500; bytes += 24) blocks.push_back(Heap::allocate(bytes));
    for (void* block : blocks) Heap::free(block);
  };
  for (int i = 0; i < 20; ++i) this->in_thread(work);
  const std::size_t mapped = Heap::usage().mapped, held = Heap::usage().held();
  for (int i = 0; i < 500; ++i) this->in_thread(work);
  EXPECT_EQ(Heap::usage().mapped, mapped);
  EXPECT_EQ(Heap::usage().held(), held);
}

TYPED_TEST(Composition, MemoryRunsOutAndComesBackWithNothingLost) {
  using Heap = HeapOf<TypeParam>;
  this->in_thread([] {
    for (const std::size_t bytes : {24ul, 500ul, 4'000ul, 100'000ul}) {
      ScarcePages::left = 3;
      std::vector<void*> blocks;
      while (void* block = Heap::allocate(bytes)) {
        fill(block, bytes, static_cast<unsigned char>(blocks.size()));
        blocks.push_back(block);
      }
      EXPECT_EQ(errno, ENOMEM);
      ScarcePages::left = 0;
      EXPECT_EQ(Heap::allocate_aligned(1 << 22, 1 << 20), nullptr);
      EXPECT_EQ(Heap::allocate_zeroed(1 << 22), nullptr);
      for (void* block : blocks) {
        ASSERT_TRUE(filled(block, bytes));
        Heap::free(block);
      }
      ScarcePages::left = 2;  // a heap that gave everything back is charged for it again
      void* again = Heap::allocate(bytes);
      EXPECT_NE(again, nullptr);
      Heap::free(again);
    }
  });
  this->check();
}

TYPED_TEST(Composition, WhereSpansMayNotGrowBlocksArePackedTightAndStayWhatTheyAre) {
  using Heap = HeapOf<TypeParam>;
  std::mt19937 random(17);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  this->in_thread([&] {
    for (int step = 0; step < 24'000; ++step) {
      if (step % 6'000 == 0) ScarcePages::most = step / 6'000 % 2 == 0 ? 1 << 20 : SIZE_MAX;
      if (blocks.size() > 3000) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        auto [block, bytes] = blocks.back();
        ASSERT_TRUE(filled(block, bytes));
        blocks.pop_back();
        const std::size_t other = random() % 3000;
        if (step % 5 == 0 && Heap::resize(block, other)) {
          ASSERT_GE(Heap::usable(block), other);
          ASSERT_TRUE(filled(block, other < bytes ? other : bytes));
        }
        Heap::free(block);
      }
      const std::size_t bytes = 1 + random() % (random() % 30 == 0 ? 200'000 : 700);
      const std::size_t alignment = std::size_t{1} << random() % 13;
      auto* block = static_cast<unsigned char*>(step % 3 == 0   ? Heap::allocate_aligned(bytes, alignment)
                                                : step % 3 == 1 ? Heap::allocate_zeroed(bytes)
                                                                : Heap::allocate(bytes));
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(step % 3 != 0 || reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
      ASSERT_TRUE(step % 3 != 1 || (block[0] == 0 && filled(block, bytes)));
      ASSERT_GE(Heap::usable(block), bytes);
      fill(block, bytes, static_cast<unsigned char>(step));
      blocks.emplace_back(block, bytes);
    }
  });
  ScarcePages::most = SIZE_MAX;
  for (auto [block, bytes] : blocks) {
    ASSERT_TRUE(filled(block, bytes));
    Heap::free(block);
  }
  this->check();
}

TYPED_TEST(Composition, AThreadThatFindsNoMemoryAtItsFirstVisitStillFrees) {
  using Heap = HeapOf<TypeParam>;
  void* block = Heap::allocate(40);
  void* range = Heap::allocate(4000);
  ScarcePages::left = 0;
  this->in_thread([&] {
    Heap::free(block);
    Heap::free(range);
  });
  this->check();
}

// A handler that runs in the middle of whatever this thread does, many times.
template <class Heap>
struct Interrupter {
  static inline std::array<void*, 64> held{};
  static inline unsigned next = 0;
  ON_AN_ALIGNED_STACK static void handle(int) {
    void*& slot = held[next++ % held.size()];
    if (slot != nullptr) Heap::free(slot);
    slot = Heap::allocate(next % 7 == 0 ? 3000 : 8 + next % 500);
    if (slot != nullptr) fill(slot, 8, static_cast<unsigned char>(next));
  }
};

TYPED_TEST(Composition, ASignalHandlerMayAllocateAndFreeInTheMiddleOfEither) {
  using Heap = HeapOf<TypeParam>;
  using Hits = Interrupter<Heap>;
  struct sigaction action{}, old{};
  action.sa_handler = Hits::handle;
  sigaction(SIGUSR1, &action, &old);
  std::atomic<bool> done{false};
  const pthread_t worker = pthread_self();
  std::thread sender([&] {
    for (; !done; usleep(20)) pthread_kill(worker, SIGUSR1);
  });
  std::mt19937 random(11);
  std::array<void*, 200> slots{};
  for (int step = 0; step < 100'000 || Hits::next < 1000; ++step) {
    void*& slot = slots[random() % slots.size()];
    if (slot != nullptr) {
      ASSERT_TRUE(filled(slot, 8));
      Heap::free(slot);
    }
    slot = Heap::allocate(8 + random() % 700);
    ASSERT_NE(slot, nullptr);
    fill(slot, 8, static_cast<unsigned char>(random()));
#if defined(__SANITIZE_THREAD__)  // it keeps signals for the next call of the system, and a heap may do without any
    if (step % 100 == 0) usleep(1);
#endif
  }
  done = true;
  sender.join();
  sigaction(SIGUSR1, &old, nullptr);
  for (void* slot : slots) Heap::free(slot);
  for (void*& slot : Hits::held) {
    ASSERT_TRUE(slot == nullptr || filled(slot, 8));
    if (slot != nullptr) Heap::free(slot);
    slot = nullptr;
  }
  this->check();
}

TYPED_TEST(Composition, AChildOfAForkAllocatesAtOnceWhileOtherThreadsWork) {
  using Heap = HeapOf<TypeParam>;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      while (!done) {
        void* small = Heap::allocate(random() % 600);
        void* large = Heap::allocate(random() % 6000);
        Heap::free(small);
        Heap::free(large);
      }
    });
  }
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      std::array<void*, 100> blocks;
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        blocks[b] = Heap::allocate(b * 30);
        if (blocks[b] == nullptr) _exit(1);
        fill(blocks[b], b * 30, 5);
      }
      for (void* block : blocks) Heap::free(block);
      _exit(consistent<TypeParam>() ? 0 : 2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  this->check();
}

// What the handlers of a program find: they run before a heap's own if they were registered after them, else with the
// heap closed. This one is registered first of all.
std::function<void()> with_the_heap_closed;
[[gnu::constructor(101)]] void register_first() {
  pthread_atfork(
      [] {
        const auto work = with_the_heap_closed;  // it may set another
        if (work) work();
      },
      nullptr, nullptr);
}

TYPED_TEST(Composition, AThreadIsServedWhileAnotherForks) {
  using Heap = HeapOf<TypeParam>;
  Heap::begin();
  constexpr std::size_t kServed = 300;
  std::vector<void*> before, meanwhile;
  for (std::size_t i = 0; i < kServed; ++i) before.push_back(Heap::allocate(i % 10 == 0 ? 5000 : 10 + i));
  const std::size_t held = Heap::usage().held();
  with_the_heap_closed = [&] {
    with_the_heap_closed = nullptr;
    // An old thread is served, a new one comes, and ends.
    for (std::size_t thread = 0; thread < 2; ++thread) {
      std::thread([&, thread] {
        for (std::size_t i = thread; i < kServed; i += 2) {
          const std::size_t bytes = i % 10 == 0 ? 7000 : 20 + i;
          meanwhile.push_back(Heap::allocate(bytes));
          fill(meanwhile.back(), bytes, static_cast<unsigned char>(i));
          meanwhile.push_back(Heap::allocate_aligned(bytes, 256));
          Heap::free(before[i]);
          EXPECT_FALSE(Heap::resize(meanwhile.back(), 1 << 20));
        }
      }).join();
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    const bool right = consistent<TypeParam>();
    for (void* block : meanwhile) Heap::free(block);
    for (std::size_t bytes = 0; bytes < 2000; ++bytes) Heap::free(Heap::allocate(bytes));
    _exit(right && consistent<TypeParam>() ? 0 : 1);
  }
  EXPECT_FALSE(with_the_heap_closed);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (void* block : meanwhile) {
    ASSERT_NE(block, nullptr);
    Heap::free(block);
  }
  EXPECT_LT(Heap::usage().held(), held);
  this->check();
}

TYPED_TEST(Composition, AThreadThatEndsWhileAnotherForksLosesNothing) {
  using Heap = HeapOf<TypeParam>;
  Heap::begin();
  const auto use = [] {
    std::vector<void*> blocks;
    for (std::size_t bytes = 8; bytes < 1500; bytes += 8) blocks.push_back(Heap::allocate(bytes));
    for (void* block : blocks) Heap::free(block);
  };
  for (int i = 0; i < 3; ++i) this->in_thread(use);
  const HeapUsage before = Heap::usage();
  for (int round = 0; round < 8; ++round) {
    std::atomic<bool> ready{false}, end{false};
    std::thread thread([&] {
      use();
      ready = true;
      while (!end) usleep(10);
    });
    while (!ready) usleep(10);
    with_the_heap_closed = [&] {
      with_the_heap_closed = nullptr;
      end = true;
      thread.join();
    };
    const pid_t child = fork();
    if (child == 0) _exit(consistent<TypeParam>() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  this->check();
  EXPECT_EQ(Heap::usage().held(), before.held());
  if (!OfPages<TypeParam>) {                         // which grows by steps, and has its front ends elsewhere
    EXPECT_EQ(Heap::usage().mapped, before.mapped);  // each front end was handed on
  }
}

TYPED_TEST(Composition, ThreadsForkAtOnceAndInTheirHandlers) {
  using Heap = HeapOf<TypeParam>;
  Heap::begin();
  std::atomic<int> wrong{0}, handlers{0};
  const auto child_is_well = [&] {
    const pid_t child = fork();
    if (child == 0) {
      for (std::size_t bytes = 1; bytes < 3000; bytes += 100) Heap::free(Heap::allocate(bytes));
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
  };
  static thread_local bool within;
  with_the_heap_closed = [&] {
    if (within) return;
    within = true;
    if (++handlers % 4 == 0 && !child_is_well()) ++wrong;
    Heap::free(Heap::allocate(100));
    within = false;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) {
        Heap::free(Heap::allocate(700));
        if (!child_is_well()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  with_the_heap_closed = nullptr;
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(handlers, 12);
  Heap::free(Heap::allocate(50));
  this->check();
}

// Its handler forks in the middle of what this thread does, which others do as well.
template <class Heap>
struct ForkingHandler {
  static constexpr int kForks = 12;
  static inline std::atomic<int> forks = 0, wrong = 0;
  ON_AN_ALIGNED_STACK static void handle(int) {
    if (++forks > kForks) return;
    const int error = errno;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (std::size_t bytes = 1; bytes < 5000; bytes += 500) Heap::free(Heap::allocate(bytes));
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) ++wrong;
    errno = error;
  }
};

TYPED_TEST(Composition, AHandlerMayForkInTheMiddleOfItsThreadsVisit) {
  using Heap = HeapOf<TypeParam>;
  using Handler = ForkingHandler<Heap>;
  Heap::begin();
  struct sigaction action{}, old{};
  action.sa_handler = Handler::handle;
  sigaction(SIGUSR1, &action, &old);
  std::atomic<bool> done{false};
  const auto work = [&] {
    std::mt19937 random(7);
    while (!done) {
      void* small = Heap::allocate(random() % 600);
      void* large = Heap::allocate(random() % 6000);
      Heap::free(small);
      Heap::free(large);
    }
  };
  std::thread worker(work), other(work);
  while (Handler::forks < Handler::kForks) {
    pthread_kill(worker.native_handle(), SIGUSR1);
    usleep(500);
  }
  done = true;
  worker.join();
  other.join();
  sigaction(SIGUSR1, &old, nullptr);
  EXPECT_EQ(Handler::wrong, 0);
  Heap::free(Heap::allocate(50));
  this->check();
}

TYPED_TEST(Composition, AThreadMayComeBackAfterItsExitHookHasRun) {
  using Heap = HeapOf<TypeParam>;
  static pthread_key_t late;
  static std::atomic<int> rounds;
  rounds = 0;
  pthread_key_create(&late, [](void* block) {
    // Runs before or after the heap's own hook, in every round of destructors.
    Heap::free(block);
    for (std::size_t bytes = 1; bytes < 900; bytes += 50) Heap::free(Heap::allocate(bytes));
    if (++rounds % 3 != 0) pthread_setspecific(late, Heap::allocate(100));
  });
  for (int i = 0; i < 10; ++i) {
    this->in_thread([] { pthread_setspecific(late, Heap::allocate(100)); });
  }
  EXPECT_EQ(rounds, 30);
  pthread_key_delete(late);
  this->check();
}

TYPED_TEST(Composition, ResizeInPlaceKeepsWhatFits) {
  using Heap = HeapOf<TypeParam>;
  void* small = Heap::allocate(100);
  EXPECT_TRUE(Heap::resize(small, Heap::usable(small)));
  EXPECT_FALSE(Heap::resize(small, Heap::usable(small) + 1));
  EXPECT_FALSE(Heap::resize(small, 8));  // a smaller block would do
  Heap::free(small);
  if (OneSizeEach<TypeParam>) return;
  void* large = Heap::allocate(100'000);
  fill(large, 100'000, 3);
  EXPECT_TRUE(Heap::resize(large, 2'000));
  EXPECT_TRUE(filled(large, 2'000));
  EXPECT_FALSE(Heap::resize(large, 16));
  EXPECT_FALSE(Heap::resize(large, SIZE_MAX));
  Heap::free(large);
  this->check();
}

TYPED_TEST(Composition, AGrowingLargeBlockMovesWithItsContents) {
  using Heap = HeapOf<TypeParam>;
  test::listen_no_more();  // else its blocks are copied, so that the listener hears of each
  std::vector<void*> between;
  std::size_t bytes = 400'000;
  void* block = Heap::allocate(bytes);
  fill(block, bytes, 7);
  unsigned moves = 0;
  for (int step = 0; step < 14; ++step) {
    const std::size_t larger = bytes + bytes / 4;
    between.push_back(Heap::allocate(700'000));  // nothing grows into what is behind it
    ScarcePages::left = 0;
    EXPECT_EQ(Heap::move(block, std::size_t{1} << 60), nullptr);
    ScarcePages::left = SIZE_MAX;
    void* moved = Heap::resize(block, larger) ? block : Heap::move(block, larger);
    moves += moved != nullptr;
    if (moved == nullptr) {
      moved = Heap::allocate(larger);
      std::memcpy(moved, block, bytes);
      Heap::free(block);
    }
    block = moved;
    ASSERT_GE(Heap::usable(block), larger);
    ASSERT_TRUE(filled(block, bytes));
    bytes = larger;
    fill(block, bytes, static_cast<unsigned char>(step));
  }
  EXPECT_GT(moves, 5u);
  Heap::free(block);
  for (void* other : between) Heap::free(other);
  this->check();
}

// Heaps that no other test uses: threads visit them for the first time, in a child, while the child forks.
struct New;
using NewPrefix = HeapShell<BfmParts<BfmSteps, 2, kBfmDepth, GiveBack, os::SystemPages, HugeSteps, NotSampled, New>>;
using NewMask = HeapShell<ScallocParts<ScallocDefaults, New>>;

// How a child says that all went well: no sanitizer asks questions on that way out.
[[noreturn]] void done_well() {
  kill(getpid(), SIGKILL);
  _exit(1);
}
bool went_well(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

template <class Heap>
void fork_while_threads_start() {
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      Heap::begin();  // as the library does when it is loaded
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) threads.emplace_back([] { Heap::free(Heap::allocate(100)); });
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        alarm(10);
        for (std::size_t bytes = 1; bytes < 5000; bytes += 100) Heap::free(Heap::allocate(bytes));
        done_well();
      }
      bool right = went_well(grandchild);
      for (std::thread& thread : threads) thread.join();
      const pid_t again = fork();  // the handlers of this process still fit
      if (again == 0) {
        if (Heap::allocate(50) != nullptr) done_well();
        _exit(1);
      }
      right &= went_well(again);
      Heap::free(Heap::allocate(50));
      if (right) done_well();
      _exit(1);
    }
    ASSERT_TRUE(went_well(child)) << "round " << i;
  }
}
TEST(FirstVisit, MayBeInterruptedByAForkUnderAPrefixHeap) { fork_while_threads_start<NewPrefix>(); }
TEST(FirstVisit, MayBeInterruptedByAForkUnderAMaskHeap) { fork_while_threads_start<NewMask>(); }

TEST(LoneMapping, BlocksOfAnyAlignmentFindTheirMapping) {
  using Lone = LoneMapping<ScarcePages>;
  for (std::size_t alignment = 1; alignment <= 1u << 20; alignment *= 2) {
    for (const std::size_t bytes : {0ul, 1ul, 4080ul, 4096ul, 100'000ul}) {
      void* block = Lone::allocate(bytes, alignment);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      ASSERT_TRUE(Lone::owns(block));
      ASSERT_GE(Lone::usable(block), bytes);
      fill(block, Lone::usable(block), 1);
      Lone::free(block);
    }
  }
}

TEST(FreeStack, EachBlockIsWorkedOffOnceThoughManyPushAndTake) {
  core::FreeStack stack;
  struct Item {
    void* link;
    std::atomic<int> freed{0};
  };
  std::vector<Item> items(40'000);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < items.size(); i += 4) {
        stack.push(&items[i].link);
        if (i % 3 == 0) stack.work_off(8, [](void* item) { ++reinterpret_cast<Item*>(item)->freed; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (!stack.empty()) stack.work_off(8, [](void* item) { ++reinterpret_cast<Item*>(item)->freed; });
  for (const Item& item : items) ASSERT_EQ(item.freed.load(), 1);
}

TEST(Lock, KeepsThreadsApart) {
  os::Lock lock;
  long count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const os::Locked locked(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 160'000);
}

}  // namespace
}  // namespace heapyard
