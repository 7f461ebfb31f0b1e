// SPDX-License-Identifier: Apache-2.0
// Whole compositions: threads, blocks that cross them, signals, late destructors.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "aligned_stack.hpp"
#include "compositions.hpp"

namespace heapyard::test {

TEST_P(Composition, ThreadsExchangeBlocksAndEverythingComesBack) {
  constexpr int kThreads = 6, kSteps = 20'000, kSlots = 300;
  const std::size_t before = heap.usage().held();
  std::array<std::atomic<void*>, kSlots> shared{};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int step = 0; step < kSteps; ++step) {
        const std::size_t bytes = 8 + random() % (random() % 50 == 0 ? 20'000 : 600);
        auto* block = static_cast<unsigned char*>(heap.allocate(bytes));
        fill(block, bytes, static_cast<unsigned char>(random()));
        std::memcpy(block + 1, &block[0], 1);
        void* old = shared[random() % kSlots].exchange(block);
        if (old != nullptr) {
          if (!filled(old, 8)) ++wrong;
          heap.free(old);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<void*>& slot : shared) {
    if (void* block = slot.exchange(nullptr)) heap.free(block);
  }
  EXPECT_EQ(wrong.load(), 0);
  check();
  EXPECT_LE(heap.usage().held(), before);
}

// Whatever threads that live or have ended keep for later is free.
TEST_P(Composition, InUseIsWhatTheProgramHoldsAndNothingElse) {
  const std::size_t kBeside = heap.sampled ? 640 : 64;  // bytes of a prefix; of what a sample takes at least
  std::mt19937 random(5);
  std::vector<void*> blocks;
  std::atomic<int> ready{0};
  std::atomic<bool> done{false};
  const std::size_t before = heap.usage().held();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 sizes(t);
      std::vector<void*> mine;
      for (int i = 0; i < 2000; ++i) mine.push_back(heap.allocate(sizes() % (sizes() % 20 == 0 ? 20'000 : 900)));
      for (void* block : mine) heap.free(block);
      ++ready;
      while (t % 2 == 0 && !done) usleep(100);
    });
  }
  while (ready != 4) usleep(100);
  threads[1].join();
  threads[3].join();
  std::size_t held = 0;
  for (int i = 0; i < 4000; ++i) {
    void* block = heap.allocate(random() % (random() % 20 == 0 ? 20'000 : 900));
    if (i % 4 == 0) {
      held += heap.usable(block);
      blocks.push_back(block);
    } else {
      heap.free(block);
    }
  }
  const std::size_t now = heap.usage().held();
  EXPECT_GE(now, before + held);
  EXPECT_LE(now, before + held + kBeside * blocks.size());
  for (void* block : blocks) heap.free(block);
  EXPECT_EQ(heap.usage().held(), before);
  done = true;
  threads[0].join();
  threads[2].join();
  EXPECT_EQ(heap.usage().held(), before);
}

TEST_P(Composition, ManyShortThreadsNeedNoMoreMemoryThanOne) {
  const auto work = [&] {
    std::vector<void*> blocks;
    for (std::size_t bytes = 8; bytes < 1500; bytes += 24) blocks.push_back(heap.allocate(bytes));
    for (void* block : blocks) heap.free(block);
  };
  for (int i = 0; i < 20; ++i) in_thread(work);
  const std::size_t mapped = heap.usage().mapped, held = heap.usage().held();
  for (int i = 0; i < (kSanitized ? 100 : 500); ++i) in_thread(work);
  EXPECT_EQ(heap.usage().mapped, mapped);
  EXPECT_EQ(heap.usage().held(), held);
}

TEST_P(Composition, AThreadThatFindsNoMemoryAtItsFirstVisitStillFrees) {
  void* block = heap.allocate(40);
  void* range = heap.allocate(4000);
  ScarcePages::left = 0;
  in_thread([&] {
    heap.free(block);
    heap.free(range);
  });
  check();
}

TEST_P(CompositionAlone, WhoAsksForUsageReadsNoSpanThatIsTakenAway) {
  ScarcePages::most = std::size_t{1} << 40;  // short of address space: what empty spans have goes back at once
  ScarcePages::left = 0;
  in_thread([&] { heap.free(heap.allocate(100)); });  // a refusal is noticed
  ScarcePages::left = SIZE_MAX;
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<void*> blocks;
      for (; !done; ++rounds) {
        const std::size_t bytes = std::size_t{1000} << random() % 5;
        for (std::size_t i = 0; i < 200; ++i) blocks.push_back(heap.allocate(bytes));
        std::shuffle(blocks.begin(), blocks.end(), random);
        for (void* block : blocks) heap.free(block);
        blocks.clear();
      }
    });
  }
  while (rounds < (kSanitized ? 30 : 600)) static_cast<void>(heap.usage());
  done = true;
  for (std::thread& thread : threads) thread.join();
  ScarcePages::most = SIZE_MAX;
  check();
}

// A handler that runs in the middle of whatever this thread does, many times.
struct Interrupter {
  static inline const TestedHeap* heap;
  static inline std::array<void*, 64> held{};
  static inline unsigned next;
  ON_AN_ALIGNED_STACK static void handle(int) {
    void*& slot = held[next++ % held.size()];
    if (slot != nullptr) heap->free(slot);
    slot = heap->allocate(next % 7 == 0 ? 3000 : 8 + next % 500);
    if (slot != nullptr) fill(slot, 8, static_cast<unsigned char>(next));
  }
};

TEST_P(Composition, ASignalHandlerMayAllocateAndFreeInTheMiddleOfEither) {
  using Hits = Interrupter;
  Hits::heap = &heap;
  Hits::next = 0;
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
  for (int step = 0; step < (kSanitized ? 30'000 : 100'000) || Hits::next < 1000; ++step) {
    void*& slot = slots[random() % slots.size()];
    if (slot != nullptr) {
      ASSERT_TRUE(filled(slot, 8));
      heap.free(slot);
    }
    slot = heap.allocate(8 + random() % 700);
    ASSERT_NE(slot, nullptr);
    fill(slot, 8, static_cast<unsigned char>(random()));
#if defined(__SANITIZE_THREAD__)  // it keeps signals for the next call of the system, and a heap may do without any
    if (step % 100 == 0) usleep(1);
#endif
  }
  done = true;
  sender.join();
  sigaction(SIGUSR1, &old, nullptr);
  for (void* slot : slots) heap.free(slot);
  for (void*& slot : Hits::held) {
    ASSERT_TRUE(slot == nullptr || filled(slot, 8));
    if (slot != nullptr) heap.free(slot);
    slot = nullptr;
  }
  check();
}

TEST_P(Composition, AThreadMayComeBackAfterItsExitHookHasRun) {
  static pthread_key_t late;
  static std::atomic<int> rounds;
  static const TestedHeap* tested;
  tested = &heap;
  rounds = 0;
  pthread_key_create(&late, [](void* block) {
    // Runs before or after the heap's own hook, in every round of destructors.
    tested->free(block);
    for (std::size_t bytes = 1; bytes < 900; bytes += 50) tested->free(tested->allocate(bytes));
    if (++rounds % 3 != 0) pthread_setspecific(late, tested->allocate(100));
  });
  for (int i = 0; i < 10; ++i) {
    in_thread([] { pthread_setspecific(late, tested->allocate(100)); });
  }
  EXPECT_EQ(rounds, 30);
  pthread_key_delete(late);
  check();
}

}  // namespace heapyard::test
