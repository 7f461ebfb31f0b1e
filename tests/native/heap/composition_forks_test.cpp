// SPDX-License-Identifier: Apache-2.0
// Whole compositions: processes that fork, also beside threads, in handlers of forks and of signals.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "aligned_stack.hpp"
#include "compositions.hpp"
#include "forked_child.hpp"
#include "heap/allocators/bfm.hpp"
#include "heap/allocators/scalloc.hpp"

namespace heapyard::test {

TEST_P(Composition, AChildOfAForkAllocatesAtOnceWhileOtherThreadsWork) {
  heap.begin();  // else the first fork may be under way when a thread's first visit registers the heap's handlers
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      while (!done) {
        void* small = heap.allocate(random() % 600);
        void* large = heap.allocate(random() % 6000);
        heap.free(small);
        heap.free(large);
      }
    });
  }
  constexpr int kForks = kSanitized ? 8 : 40;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a child that waits for ever fails, and keeps nobody waiting
      std::array<void*, 100> blocks;
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        blocks[b] = heap.allocate(b * 30);
        if (blocks[b] == nullptr) end_child(false);
        fill(blocks[b], b * 30, 5);
      }
      for (void* block : blocks) heap.free(block);
      end_child(heap.consistent());
    }
    ASSERT_TRUE(ended_well(child));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  check();
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

TEST_P(Composition, AThreadIsServedWhileAnotherForks) {
  heap.begin();
  constexpr std::size_t kServed = 300;
  std::vector<void*> before, meanwhile;
  for (std::size_t i = 0; i < kServed; ++i) before.push_back(heap.allocate(i % 10 == 0 ? 5000 : 10 + i));
  const std::size_t held = heap.usage().held();
  with_the_heap_closed = [&] {
    with_the_heap_closed = nullptr;
    // An old thread is served, a new one comes, and ends.
    for (std::size_t thread = 0; thread < 2; ++thread) {
      std::thread([&, thread] {
        for (std::size_t i = thread; i < kServed; i += 2) {
          const std::size_t bytes = i % 10 == 0 ? 7000 : 20 + i;
          meanwhile.push_back(heap.allocate(bytes));
          fill(meanwhile.back(), bytes, static_cast<unsigned char>(i));
          meanwhile.push_back(heap.allocate_aligned(bytes, 256));
          heap.free(before[i]);
          EXPECT_FALSE(heap.resize(meanwhile.back(), 1 << 20));
        }
      }).join();
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    const bool right = heap.consistent();
    for (void* block : meanwhile) heap.free(block);
    for (std::size_t bytes = 0; bytes < 2000; ++bytes) heap.free(heap.allocate(bytes));
    end_child(right && heap.consistent());
  }
  EXPECT_FALSE(with_the_heap_closed);
  EXPECT_TRUE(ended_well(child));
  for (void* block : meanwhile) {
    ASSERT_NE(block, nullptr);
    heap.free(block);
  }
  EXPECT_LT(heap.usage().held(), held);
  check();
}

TEST_P(Composition, AThreadThatEndsWhileAnotherForksLosesNothing) {
  heap.begin();
  const auto use = [&] {
    std::vector<void*> blocks;
    for (std::size_t bytes = 8; bytes < 1500; bytes += 8) blocks.push_back(heap.allocate(bytes));
    for (void* block : blocks) heap.free(block);
  };
  for (int i = 0; i < 3; ++i) in_thread(use);
  const HeapUsage before = heap.usage();
  for (int round = 0; round < (kSanitized ? 4 : 8); ++round) {
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
    if (child == 0) end_child(heap.consistent());
    ASSERT_TRUE(ended_well(child));
  }
  check();
  EXPECT_EQ(heap.usage().held(), before.held());
  if (!heap.of_pages) {                             // which grows by steps, and has its front ends elsewhere
    EXPECT_EQ(heap.usage().mapped, before.mapped);  // each front end was handed on
  }
}

TEST_P(Composition, ThreadsForkAtOnceAndInTheirHandlers) {
  heap.begin();
  std::atomic<int> wrong{0}, handlers{0};
  const auto child_is_well = [&] {
    const pid_t child = fork();
    if (child == 0) {
      for (std::size_t bytes = 1; bytes < 3000; bytes += 100) heap.free(heap.allocate(bytes));
      end_child(true);
    }
    return ended_well(child);
  };
  static thread_local bool within;
  with_the_heap_closed = [&] {
    if (within) return;
    within = true;
    if (++handlers % 4 == 0 && !child_is_well()) ++wrong;
    heap.free(heap.allocate(100));
    within = false;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) {
        heap.free(heap.allocate(700));
        if (!child_is_well()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  with_the_heap_closed = nullptr;
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(handlers, 12);
  heap.free(heap.allocate(50));
  check();
}

// Its handler forks in the middle of what this thread does, which others do as well.
struct ForkingHandler {
  static constexpr int kForks = kSanitized ? 5 : 12;
  static inline const TestedHeap* heap;
  static inline std::atomic<int> forks, wrong;
  ON_AN_ALIGNED_STACK static void handle(int) {
    if (++forks > kForks) return;
    const int error = errno;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (std::size_t bytes = 1; bytes < 5000; bytes += 500) heap->free(heap->allocate(bytes));
      end_child(true);
    }
    if (!ended_well(child)) ++wrong;
    errno = error;
  }
};

TEST_P(Composition, AHandlerMayForkInTheMiddleOfItsThreadsVisit) {
  using Handler = ForkingHandler;
  Handler::heap = &heap;
  Handler::forks = Handler::wrong = 0;
  heap.begin();
  struct sigaction action{}, old{};
  action.sa_handler = Handler::handle;
  sigaction(SIGUSR1, &action, &old);
  std::atomic<bool> done{false};
  const auto work = [&] {
    std::mt19937 random(7);
    while (!done) {
      void* small = heap.allocate(random() % 600);
      void* large = heap.allocate(random() % 6000);
      heap.free(small);
      heap.free(large);
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
  heap.free(heap.allocate(50));
  check();
}

// Heaps that no other test uses: threads visit them for the first time, in a child, while the child forks.
struct New;
using NewPrefix = HeapShell<BfmParts<BfmSteps, 2, kBfmDepth, GiveBack, os::SystemPages, HugeSteps, NotSampled, New>>;
using NewMask = HeapShell<ScallocParts<ScallocDefaults, New>>;

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
        end_child(true);
      }
      bool right = ended_well(grandchild);
      for (std::thread& thread : threads) thread.join();
      const pid_t again = fork();  // the handlers of this process still fit
      if (again == 0) {
        end_child(Heap::allocate(50) != nullptr);
      }
      right &= ended_well(again);
      Heap::free(Heap::allocate(50));
      end_child(right);
    }
    ASSERT_TRUE(ended_well(child)) << "round " << i;
  }
}
TEST(FirstVisit, MayBeInterruptedByAForkUnderAPrefixHeap) { fork_while_threads_start<NewPrefix>(); }
TEST(FirstVisit, MayBeInterruptedByAForkUnderAMaskHeap) { fork_while_threads_start<NewMask>(); }

}  // namespace heapyard::test
