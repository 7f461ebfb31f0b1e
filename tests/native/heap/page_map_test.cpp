// SPDX-License-Identifier: Apache-2.0
// A third classifier fits the shell of the heaps as it is: a byte per page of one window says which class its blocks
// have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "forked_child.hpp"
#include "heap/core/size_steps.hpp"
#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/span_concepts.hpp"
#include "heap/layers/frontend/thread_cache.hpp"
#include "heap/layers/heap_shell.hpp"
#include "heap/layers/sampled_blocks.hpp"
#include "heap/layers/tight_blocks.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"
#include "heap/os/system_pages.hpp"

namespace heapyard {
namespace {

using Steps = core::SizeSteps<2, 4, 8, 16, 32, 64>;  // all blocks at multiples of 16
constexpr std::size_t kPage = 4096, kPages = 16384;

// Its window is mapped as a whole; the bytes are beside it, 0 for pages without blocks.
class PageMap {
 public:
  using Classes = Steps;
  using Holder = unsigned;
  static constexpr bool kTellsNull = true, kAligned = true, kAligns = false;

  void reserve() {
    if (start_ != 0) return;
    start_ = reinterpret_cast<std::uintptr_t>(os::map(kPage * kPages));
  }
  bool owns(const void* block) const {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(block) - start_;
    return at < kPage * kPages && classes_[at / kPage] != 0;
  }
  unsigned holder_of(const void* block) const { return classes_[page_of(block)] - 1u; }
  std::size_t usable(const void* block) const { return Classes::bytes_of(holder_of(block)); }
  template <class Pool>
  static HeapUsage usage(Pool& pool) {
    return pool.usage();
  }

  // For who makes pages of blocks: the next page, now of that class; null when the window is used up.
  char* next_page(unsigned c) {
    if (used_ == kPages) return nullptr;
    classes_[used_] = static_cast<std::uint8_t>(c + 1);
    return reinterpret_cast<char*>(start_) + kPage * used_++;
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t page_of(const void* block) const { return (reinterpret_cast<std::uintptr_t>(block) - start_) / kPage; }

  std::uintptr_t start_ = 0;
  std::size_t used_ = 0;
  std::uint8_t classes_[kPages] = {};
};
static_assert(Classifier<PageMap>);

// A list of free blocks for each class, under one lock; pages are never given back.
class FreeLists {
 public:
  static constexpr unsigned kClasses = Steps::kClasses;
  constexpr explicit FreeLists(PageMap& map) : map_(map) {}

  unsigned allocate(unsigned c, void** blocks, unsigned n, unsigned) {
    const os::Locked locked(lock_);
    unsigned got = 0;
    for (; got < n; ++got) {
      if (free_[c] == nullptr && !cut(c)) break;
      blocks[got] = free_[c];
      free_[c] = *static_cast<void**>(free_[c]);
      free_bytes_ -= Steps::bytes_of(c);
    }
    return got;
  }
  void free(void** blocks, unsigned n) {
    const os::Locked locked(lock_);
    for (unsigned i = 0; i < n; ++i) push(map_.holder_of(blocks[i]), blocks[i]);
  }
  unsigned heap_of_new_thread() { return 0; }
  static std::size_t occupied(unsigned c) { return Steps::bytes_of(c); }
  void trim(bool) {}
  HeapUsage usage() { return {map_.used() * kPage, free_bytes_}; }

 private:
  bool cut(unsigned c) {
    char* page = map_.next_page(c);
    if (page == nullptr) return false;
    for (std::size_t at = 0; at + Steps::bytes_of(c) <= kPage; at += Steps::bytes_of(c)) push(c, page + at);
    return true;
  }
  void push(unsigned c, void* block) {
    *static_cast<void**>(block) = free_[c];
    free_[c] = block;
    free_bytes_ += Steps::bytes_of(c);
  }

  PageMap& map_;
  os::Lock lock_;
  std::size_t free_bytes_ = 0;
  void* free_[kClasses] = {};
};
static_assert(SpanHeap<FreeLists>);

struct MappedParts {
  using Map = PageMap;
  using Outside = os::SystemPages;
  using Large = BestFitTree<Outside>;
  using Pool = FreeLists;
  using Front = ThreadCache<Pool, Large, 8, MappedParts>;
  using Samples = NoSampledBlocks;
  using Tight = NoTightBlocks;
  static inline constinit Map map;
  static inline constinit Large large;
  static inline constinit Pool pool{map};
  static inline constinit Front front{pool, large};
  static constexpr Tight tight{};
};
using Mapped = HeapShell<MappedParts>;

TEST(PageMap, ServesBlocksOfClassesAndOthers) {
  std::set<void*> seen;
  std::vector<void*> blocks;
  for (std::size_t bytes = 0; bytes < 3000; ++bytes) {
    void* block = Mapped::allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0u);
    EXPECT_GE(Mapped::usable(block), bytes);
    EXPECT_EQ(MappedParts::map.owns(block), bytes <= Steps::kLargest);
    std::memset(block, static_cast<int>(bytes), bytes);
    EXPECT_TRUE(seen.insert(block).second);
    blocks.push_back(block);
  }
  for (std::size_t bytes = 0; bytes < blocks.size(); ++bytes) {
    const auto* at = static_cast<unsigned char*>(blocks[bytes]);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(at[i], static_cast<unsigned char>(bytes));
    Mapped::free(blocks[bytes]);
  }
  Mapped::free(nullptr);
}

TEST(PageMap, AlignedBlocksAndResizingWork) {
  for (std::size_t alignment = 8; alignment <= 1 << 16; alignment *= 2) {
    void* block = Mapped::allocate_aligned(100, alignment);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
    Mapped::free(block);
  }
  void* block = Mapped::allocate(100);
  EXPECT_TRUE(Mapped::resize(block, 128));
  EXPECT_FALSE(Mapped::resize(block, 129));
  Mapped::free(block);
}

TEST(PageMap, BlocksCrossThreadsAndAForkLeavesTheHeapWhole) {
  Mapped::begin();
  const std::size_t before = Mapped::usage().held();
  std::vector<void*> blocks(5000);
  std::thread([&] {
    for (void*& block : blocks) block = Mapped::allocate(60);
  }).join();
  EXPECT_GE(Mapped::usage().held(), before + 5000 * 64);
  const pid_t child = fork();
  if (child == 0) {
    for (void* block : blocks) Mapped::free(block);
    test::end_child(Mapped::usage().held() == before);
  }
  EXPECT_TRUE(test::ended_well(child));
  for (void* block : blocks) Mapped::free(block);
  EXPECT_EQ(Mapped::usage().held(), before);
}

}  // namespace
}  // namespace heapyard
