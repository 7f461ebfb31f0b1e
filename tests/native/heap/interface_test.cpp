// SPDX-License-Identifier: Apache-2.0
// What libheapyard offers beyond malloc (heap/include/heapyard.h), in a program whose malloc it is.
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "forked_child.hpp"
#include "heapyard.h"
#include "heapyard.hpp"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string statistics() {
  std::string text(heapyard_statistics(nullptr, 0) + 4096, ' ');  // a class more, perhaps
  text.resize(heapyard_statistics(text.data(), text.size()));
  return text;
}

// A number of the statistics, by its name.
std::size_t number(const char* name) {
  const std::string text = statistics(), key = '"' + std::string(name) + "\": ";
  const std::size_t at = text.find(key);
  EXPECT_NE(at, std::string::npos) << name << " in " << text;
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// Seen by no optimiser.
template <class T>
T opaque(T value) {
  volatile T copy = value;
  return copy;
}

void fill(void* block, std::size_t bytes, unsigned seed) {
  std::memset(block, static_cast<int>(seed % 251 + 1), bytes);
}
bool filled(const void* block, std::size_t bytes, unsigned seed) {
  const auto* at = static_cast<const unsigned char*>(block);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (at[i] != seed % 251 + 1) return false;
  }
  return true;
}

TEST(Interface, StatisticsAreWhatTheProgramDoes) {
  std::vector<void*> blocks(20'000);
  const std::size_t small = number("small_blocks"), large = number("large_blocks");
  for (void*& block : blocks) block = malloc(500);
  void* big = malloc(8 * kMiB);
  EXPECT_NEAR(static_cast<double>(number("small_blocks") - small), 20'000 * 512.0, 0.02 * 20'000 * 512);
  EXPECT_EQ(number("large_blocks") - large, 8 * kMiB);
  EXPECT_GE(number("mapped"), 8 * kMiB + 20'000 * 512);
  EXPECT_GE(number("threads"), 1u);
  EXPECT_NE(statistics().find("{\"bytes\": 512, \"blocks\": "), std::string::npos);
  EXPECT_NE(statistics().find("\"limit\": null"), std::string::npos);
  for (void* block : blocks) free(block);
  free(big);
}

TEST(Interface, StatisticsSayHowLongTheyAreAndWriteNoMoreThanThereIsRoomFor) {
  const std::size_t whole = heapyard_statistics(nullptr, 0);
  ASSERT_GT(whole, 100u);
  char text[64];
  std::memset(text, 'x', sizeof text);
  EXPECT_GE(heapyard_statistics(text, 20) + 40, whole);
  EXPECT_EQ(std::strlen(text), 19u);
  EXPECT_EQ(text[20], 'x');
}

TEST(Interface, APurgeGivesBackWhatIsFree) {
  std::vector<void*> blocks(4'000);
  for (void*& block : blocks) fill(block = malloc(10'000), 10'000, 1);
  for (void* block : blocks) free(block);
  heapyard_purge();
  EXPECT_EQ(number("free_dirty"), 0u);
  fill(blocks[0] = malloc(4 * kMiB), 4 * kMiB, 1);
  free(blocks[0]);
  EXPECT_GE(number("free_dirty") + heapyard_purge(), 4 * kMiB);
  EXPECT_EQ(number("free_dirty"), 0u);
}

TEST(Interface, AtLeastAsMuchAsIsUsable) {
  for (const std::size_t bytes : {0ul, 1ul, 100ul, 1'000ul, 5'000ul, 100'000ul, 3 * kMiB}) {
    const heapyard_sized got = heapyard_allocate_at_least(bytes);
    ASSERT_NE(got.block, nullptr);
    EXPECT_GE(got.bytes, bytes);
    EXPECT_EQ(got.bytes, malloc_usable_size(got.block));
    fill(got.block, got.bytes, 7);
    free(got.block);
  }
  errno = 0;
  const heapyard_sized none = heapyard_allocate_at_least(opaque(static_cast<std::size_t>(PTRDIFF_MAX)));
  EXPECT_EQ(none.block, nullptr);
  EXPECT_EQ(none.bytes, 0u);
  EXPECT_EQ(errno, ENOMEM);
}

// Of memory: what the program may have in small blocks, in large ones, and in mappings of their own.
class Limit : public testing::TestWithParam<std::size_t> {};

TEST_P(Limit, IsKeptAndLeavesErrnoAndServesAgainAfterFrees) {
  const std::size_t bytes = GetParam(), room = bytes * 8 < 64 * kMiB ? 64 * kMiB : bytes * 8;
  heapyard_purge();
  const std::size_t used = number("mapped") - number("free_clean");
  heapyard_set_limit(used + room);
  EXPECT_EQ(heapyard_limit(), used + room);
  EXPECT_EQ(number("limit"), used + room);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<void*> blocks;
    blocks.reserve(room / bytes + 2);
    errno = 0;
    for (void* block; (block = malloc(opaque(bytes))) != nullptr; blocks.push_back(block)) {
      fill(block, bytes < 4096 ? bytes : 4096, 3);
      ASSERT_LT(blocks.size() * bytes, room * 2);
    }
    EXPECT_EQ(errno, ENOMEM);
    const std::size_t got = blocks.size() * bytes;
    EXPECT_LE(got, room);
    EXPECT_GE(static_cast<double>(got), 0.8 * static_cast<double>(room)) << "turn " << turn;
    EXPECT_LE(number("mapped") - number("free_clean") + number("outside"), used + room + kMiB);
    for (void* block : blocks) free(block);
  }
  heapyard_set_limit(SIZE_MAX);
  EXPECT_EQ(heapyard_limit(), SIZE_MAX);
  void* block = malloc(2 * room);
  EXPECT_NE(block, nullptr);
  free(block);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Limit, testing::Values(48, 1'000, 30'000, 200'000, 3 * kMiB, 1100 * kMiB));

TEST(Interface, ABlockThatGrowsMeetsTheLimitToo) {
  void* block = malloc(kMiB);
  heapyard_set_limit(number("mapped") + 32 * kMiB);
  std::size_t bytes = kMiB;
  errno = 0;
  for (void* more; (more = realloc(block, bytes + kMiB)) != nullptr; bytes += kMiB) {
    block = more;
    ASSERT_LT(bytes, 100 * kMiB);
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GT(bytes, 10 * kMiB);
  heapyard_set_limit(SIZE_MAX);
  free(block);
}

TEST(FirstClass, BlocksAreTheirHeapsAndGoWithIt) {
  const std::size_t before = number("first_class_spans"), large = number("large_blocks");
  heapyard_heap* heap = heapyard_heap_create();
  ASSERT_NE(heap, nullptr);
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t bytes = 1; bytes < 3 * kMiB; bytes += bytes / 3 + 1) {
    void* block = heapyard_heap_allocate(heap, bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(heapyard_heap_of(block), heap) << bytes;
    EXPECT_GE(malloc_usable_size(block), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0u);
    fill(block, bytes, static_cast<unsigned>(bytes));
    blocks.emplace_back(block, bytes);
  }
  for (const auto& [block, bytes] : blocks) EXPECT_TRUE(filled(block, bytes, static_cast<unsigned>(bytes)));
  EXPECT_GT(heapyard_heap_bytes(heap), 3 * kMiB);
  EXPECT_GT(number("first_class_spans"), before);
  void* other = malloc(100);
  EXPECT_EQ(heapyard_heap_of(other), nullptr);
  free(other);
  EXPECT_EQ(heapyard_heap_destroy(heap), 0);
  EXPECT_EQ(number("first_class_spans"), before);
  EXPECT_EQ(number("large_blocks"), large);
  EXPECT_EQ(heapyard_heap_destroy(nullptr), 0);
}

TEST(FirstClass, FreeTakesTheirBlocksAndTheyAreUsedAgain) {
  heapyard_heap* heap = heapyard_heap_create();
  for (int turn = 0; turn < 50; ++turn) {
    std::vector<void*> blocks;
    for (std::size_t bytes = 8; bytes < kMiB; bytes *= 2) blocks.push_back(heapyard_heap_allocate(heap, bytes));
    for (void* block : blocks) free(block);
  }
  EXPECT_EQ(heapyard_heap_bytes(heap), 0u);  // empty spans go at once
  heapyard_heap_destroy(heap);
}

TEST(FirstClass, ReallocKeepsABlockInItsHeap) {
  heapyard_heap* heap = heapyard_heap_create();
  char* block = static_cast<char*>(heapyard_heap_allocate(heap, 10));
  std::memcpy(block, "123456789", 10);
  for (std::size_t bytes = 20; bytes < 20 * kMiB; bytes = bytes * 3 / 2) {
    block = static_cast<char*>(realloc(block, bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_STREQ(block, "123456789");
    EXPECT_EQ(heapyard_heap_of(block), heap) << bytes;
    EXPECT_GE(malloc_usable_size(block), bytes);
  }
  block = static_cast<char*>(realloc(block, 16));
  EXPECT_STREQ(block, "123456789");
  EXPECT_EQ(heapyard_heap_of(block), heap);
  free(block);
  EXPECT_EQ(heapyard_heap_bytes(heap), 0u);
  heapyard_heap_destroy(heap);
}

TEST(FirstClass, ZeroedAndAlignedAsAsked) {
  heapyard_heap* heap = heapyard_heap_create();
  for (const std::size_t bytes : {10ul, 1'000ul, 40'000ul, kMiB}) {
    void* block = heapyard_heap_allocate(heap, bytes);
    fill(block, bytes, 9);
    free(block);
    auto* zeroed = static_cast<unsigned char*>(heapyard_heap_allocate_zeroed(heap, bytes / 10, 10));
    for (std::size_t i = 0; i < bytes / 10 * 10; ++i) ASSERT_EQ(zeroed[i], 0) << i << " of " << bytes;
    free(zeroed);
    for (std::size_t alignment = 1; alignment <= kMiB; alignment *= 2) {
      void* aligned = heapyard_heap_allocate_aligned(heap, alignment, bytes);
      ASSERT_NE(aligned, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % alignment, 0u);
      EXPECT_EQ(heapyard_heap_of(aligned), heap);
      fill(aligned, bytes, 1);
      free(aligned);
    }
  }
  EXPECT_EQ(heapyard_heap_bytes(heap), 0u);
  errno = 0;
  EXPECT_EQ(heapyard_heap_allocate_aligned(heap, 24, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(heapyard_heap_allocate_zeroed(heap, SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 4096, static_cast<std::size_t>(PTRDIFF_MAX)}) {
    for (const std::size_t alignment : {std::size_t{16}, std::size_t{4096}, std::size_t{1} << 62}) {
      errno = 0;
      EXPECT_EQ(heapyard_heap_allocate_aligned(heap, alignment, bytes), nullptr);
      EXPECT_EQ(errno, ENOMEM);
    }
    errno = 0;
    EXPECT_EQ(heapyard_heap_allocate(heap, bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(heapyard_allocate_at_least(bytes).block, nullptr);
  }
  heapyard_heap_destroy(heap);
}

// While another thread forks, no thread may enter: blocks are mappings of their own, and still the heap's.
TEST(FirstClass, BlocksThatAreTakenBesideAForkAreTheHeaps) {
  constexpr std::size_t kBytes = 3'000;
  heapyard_heap* heap = heapyard_heap_create();
  std::atomic<bool> done{false};
  std::vector<void*> blocks;
  blocks.reserve(100'000);
  std::thread beside([&] {
    while (!done && blocks.size() < blocks.capacity()) {
      void* block = heapyard_heap_allocate_aligned(heap, 64, kBytes);
      if (block == nullptr) break;
      fill(block, kBytes, static_cast<unsigned>(blocks.size()));
      blocks.push_back(block);
      if (blocks.size() % 2 == 0) free(std::exchange(blocks[blocks.size() / 2], nullptr));
    }
  });
  for (int turn = 0; turn < 20; ++turn) {
    const pid_t child = fork();
    if (child == 0) heapyard::test::end_child(true);
    EXPECT_TRUE(heapyard::test::ended_well(child));
  }
  done = true;
  beside.join();
  ASSERT_GT(blocks.size(), 0u);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == nullptr) continue;
    wrong +=
        reinterpret_cast<std::uintptr_t>(blocks[i]) % 64 != 0 || !filled(blocks[i], kBytes, static_cast<unsigned>(i));
    if (i % 3 == 0) free(blocks[i]);
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(heapyard_heap_destroy(heap), 0);
}

// Against a map of what each block holds: 200,000 operations on four heaps and on malloc.
TEST(FirstClass, RandomOperationsKeepContents) {
  struct Held {
    std::size_t bytes;
    unsigned seed, heap;
  };
  std::mt19937 random(12345);
  heapyard_heap* heaps[4];
  for (auto& heap : heaps) heap = heapyard_heap_create();
  std::map<void*, Held> held;
  const auto some = [&] {
    auto at = held.lower_bound(reinterpret_cast<void*>(std::uintptr_t{random()} << 16 | random() % 65536));
    return at == held.end() ? held.begin() : at;
  };
  for (int step = 0; step < 200'000; ++step) {
    const unsigned what = random() % 1000, h = random() % 5;
    const std::size_t bytes = std::size_t{1} << random() % (step % 100 == 0 ? 19 : 11);
    const std::size_t asked = bytes + random() % bytes;
    if (what < 450 || held.empty()) {
      void* block = h == 4 ? malloc(asked) : heapyard_heap_allocate(heaps[h], asked);
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(held.emplace(block, Held{asked, static_cast<unsigned>(step), h}).second);
      fill(block, asked, static_cast<unsigned>(step));
    } else if (what < 990) {
      const auto at = some();
      ASSERT_TRUE(filled(at->first, at->second.bytes, at->second.seed));
      if (what < 560) {
        const Held now = at->second;
        void* moved = realloc(at->first, asked);
        held.erase(at);
        ASSERT_TRUE(filled(moved, asked < now.bytes ? asked : now.bytes, now.seed));
        fill(moved, asked, now.seed);
        held.emplace(moved, Held{asked, now.seed, now.heap});
        ASSERT_EQ(heapyard_heap_of(moved), now.heap == 4 ? nullptr : heaps[now.heap]);
      } else {
        free(at->first);
        held.erase(at);
      }
    } else if (what == 999) {
      const unsigned gone = random() % 4;
      std::erase_if(held, [&](const auto& one) { return one.second.heap == gone; });
      ASSERT_EQ(heapyard_heap_destroy(heaps[gone]), 0);
      heaps[gone] = heapyard_heap_create();
    }
  }
  for (const auto& [block, of] : held) {
    ASSERT_TRUE(filled(block, of.bytes, of.seed));
    if (of.heap == 4) free(block);
  }
  for (auto* heap : heaps) heapyard_heap_destroy(heap);
}

TEST(FirstClass, ThreadsShareOne) {
  heapyard_heap* heap = heapyard_heap_create();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<void*, std::size_t>> held;
      for (int i = 0; i < 20'000; ++i) {
        if (held.size() < 100 || random() % 2 == 0) {
          const std::size_t bytes = random() % 3000 + 1;
          held.emplace_back(heapyard_heap_allocate(heap, bytes), bytes);
          fill(held.back().first, bytes, t);
        } else {
          std::swap(held[random() % held.size()], held.back());
          wrong += !filled(held.back().first, held.back().second, t);
          free(held.back().first);
          held.pop_back();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  heapyard_heap_destroy(heap);
}

// Others fork, and so does this thread, while one allocates: no block is lost, and the child can go on.
TEST(FirstClass, ForksBesideThem) {
  heapyard_heap* heap = heapyard_heap_create();
  std::atomic<bool> over{false};
  std::thread other([&] {
    for (unsigned i = 0; !over; ++i) {
      void* block = heapyard_heap_allocate(heap, i % 5000 + 1);
      fill(block, i % 5000 + 1, i);
      if (i % 3 != 0) free(block);
      if (i % 10'000 == 0) heapyard_heap_destroy(heapyard_heap_create());
    }
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (std::size_t bytes = 1; bytes < 100'000; bytes *= 3) {
        void* block = heapyard_heap_allocate(heap, bytes);
        if (block == nullptr) heapyard::test::end_child(false);
        free(block);
      }
      heapyard::test::end_child(heapyard_heap_destroy(heap) == 0);
    }
    ASSERT_TRUE(heapyard::test::ended_well(child));
  }
  over = true;
  other.join();
  heapyard_heap_destroy(heap);
}

heapyard_heap* heap_of_handlers = nullptr;
void* of_a_handler = nullptr;

// In the prepare handler that runs after ours the heap is closed: a block is a mapping then, and goes with its heap.
TEST(FirstClass, HandlersOfAForkGetMappings) {
  heapyard_heap* heap = heapyard_heap_create();
  heap_of_handlers = heap;
  static bool once = false;
  if (!once) {
    once = true;
    ASSERT_EQ(pthread_atfork(nullptr, nullptr,
                             [] {
                               if (heap_of_handlers != nullptr)
                                 of_a_handler = heapyard_heap_allocate(heap_of_handlers, 100);
                             }),
              0);
  }
  const pid_t child = fork();
  if (child == 0) {
    if (of_a_handler == nullptr) heapyard::test::end_child(false);
    fill(of_a_handler, 100, 5);
    free(of_a_handler);
    heapyard::test::end_child(heapyard_heap_destroy(heap) == 0);
  }
  EXPECT_TRUE(heapyard::test::ended_well(child));
  heap_of_handlers = nullptr;
  heapyard_heap_destroy(heap);
}

TEST(FirstClass, AMemoryResource) {
  heapyard::memory_resource resource;
  {
    std::pmr::vector<std::pmr::string> texts(&resource);
    for (int i = 0; i < 10'000; ++i) texts.emplace_back("a text of some length, number " + std::to_string(i));
    EXPECT_EQ(heapyard_heap_of(texts.data()), resource.heap());
    EXPECT_EQ(texts[9'999], "a text of some length, number 9999");
  }
  EXPECT_TRUE(resource.is_equal(resource));
  EXPECT_FALSE(resource.is_equal(*std::pmr::get_default_resource()));
  void* left = resource.allocate(kMiB, 64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(left) % 64, 0u);
  EXPECT_GE(heapyard_heap_bytes(resource.heap()), kMiB);
  resource.release();
  EXPECT_EQ(heapyard_heap_bytes(resource.heap()), 0u);
  EXPECT_THROW(static_cast<void>(resource.allocate(PTRDIFF_MAX, 16)), std::bad_alloc);
}

TEST(FirstClass, PageEventsAreTold) {
  static std::size_t taken, returned;
  taken = returned = 0;
  static constexpr heapyard_page_events kEvents{[](void*, std::size_t bytes) { taken += bytes; },
                                                [](void*) { ++returned; }};
  heapyard_observe_pages(&kEvents);
  heapyard_heap* heap = heapyard_heap_create();
  static_cast<void>(heapyard_heap_allocate(heap, kMiB));
  heapyard_heap_destroy(heap);
  heapyard_observe_pages(nullptr);
  EXPECT_GE(taken, kMiB + 3 * 4096);
  EXPECT_GE(returned, 2u);
}

}  // namespace
