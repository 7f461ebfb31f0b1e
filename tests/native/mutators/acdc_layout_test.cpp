// SPDX-License-Identifier: Apache-2.0
// Orders and layouts, exactly: every malloc and free of the code under test passes through here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "mutators/acdc/layout.hpp"

namespace {
// Recording is on only inside a test's bracket; the vectors are reserved beforehand, so nothing recorded allocates.
// Volatile, since a compiler that knows malloc and free believes that they look at nothing of ours.
volatile bool recording = false;
volatile int failures_after = -1;  // let this many allocations succeed, then fail
std::vector<void*> allocated, freed;
void* note(void* object) {
  if (recording) allocated.push_back(object);
  return object;
}
}  // namespace

extern "C" {
void* __real_malloc(size_t size);
void* __real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void* object);
void* __wrap_malloc(size_t size) {
  if (recording && failures_after >= 0) {
    failures_after = failures_after - 1;
    if (failures_after < 0) {
      failures_after = 0;
      return nullptr;
    }
  }
  return note(__real_malloc(size));
}
void* __wrap_aligned_alloc(size_t alignment, size_t size) { return note(__real_aligned_alloc(alignment, size)); }
void __wrap_free(void* object) {
  if (recording) freed.push_back(object);
  __real_free(object);
}
}

namespace heapyard::acdc {
namespace {

class Layout : public testing::Test {
 protected:
  void SetUp() override {
    allocated.clear();
    freed.clear();
    allocated.reserve(1 << 16);
    freed.reserve(1 << 16);
    failures_after = -1;
  }

  SizeClass make(Shape shape, std::uint32_t count, std::uint64_t size) {
    SizeClass c{};
    c.shape = shape;
    c.count = count;
    c.size = size;
    return c;
  }
  bool allocate(SizeClass& c, Placement placement) {
    Untimed none;
    made_ = 0;
    recording = true;
    const bool complete = allocate_class(c, placement, none, made_);
    recording = false;
    return complete;
  }
  void release(SizeClass& c, Placement placement, bool post_order = false) {
    Untimed none;
    recording = true;
    free_class(c, placement, none, post_order);
    recording = false;
  }
  std::uint32_t made_ = 0;
};

// Numbers of the nodes of a complete binary tree of n nodes, in pre-order; mirrored: right before left.
void pre_order(std::uint64_t node, std::uint64_t n, bool mirrored, std::vector<std::uint64_t>& out) {
  if (node >= n) return;
  out.push_back(node);
  pre_order(2 * node + (mirrored ? 2 : 1), n, mirrored, out);
  pre_order(2 * node + (mirrored ? 1 : 2), n, mirrored, out);
}

TEST_F(Layout, ListsAreFreedInTheOrderOfAllocation) {
  for (std::uint32_t count : {1u, 2u, 3u, 100u}) {
    SetUp();
    SizeClass c = make(Shape::kList, count, 40);
    ASSERT_TRUE(allocate(c, Placement::kHeap));
    release(c, Placement::kHeap);
    EXPECT_EQ(allocated.size(), count);
    EXPECT_EQ(freed, allocated);
  }
}

TEST_F(Layout, TreesAreBuiltInPreOrderAndFreedInMirroredPreOrder) {
  for (std::uint32_t count = 1; count <= 40; ++count) {
    SetUp();
    SizeClass c = make(Shape::kTree, count, 24);
    ASSERT_TRUE(allocate(c, Placement::kHeap));
    release(c, Placement::kHeap);
    std::vector<std::uint64_t> built, visited;
    pre_order(0, count, false, built);
    pre_order(0, count, true, visited);
    ASSERT_EQ(allocated.size(), count);
    ASSERT_EQ(freed.size(), count);
    std::vector<void*> by_number(count);
    for (std::uint32_t i = 0; i < count; ++i) by_number[built[i]] = allocated[i];
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_EQ(freed[i], by_number[visited[i]]) << "node " << i << " of " << count;
  }
}

TEST_F(Layout, CompactIsOneBlockWithTheIndexesOfThePaper) {
  for (std::uint32_t count = 1; count <= 40; ++count) {
    SetUp();
    SizeClass list = make(Shape::kList, count, 21);
    ASSERT_TRUE(allocate(list, Placement::kCompact));
    ASSERT_EQ(allocated.size(), 1u);
    auto* base = static_cast<char*>(list.head);
    std::uint32_t index = 0;
    for (auto* object = static_cast<ListObject*>(list.head); object; object = object->next)
      ASSERT_EQ(reinterpret_cast<char*>(object), base + 24 * index++);
    ASSERT_EQ(index, count);
    release(list, Placement::kCompact);
    ASSERT_EQ(freed.size(), 1u);

    SizeClass tree = make(Shape::kTree, count, 21);
    ASSERT_TRUE(allocate(tree, Placement::kCompact));
    base = static_cast<char*>(tree.head);
    for (std::uint64_t i = 0; i < count; ++i) {
      auto* object = reinterpret_cast<TreeObject*>(base + 24 * i);
      ASSERT_EQ(object->left, 2 * i + 1 < count ? reinterpret_cast<TreeObject*>(base + 24 * (2 * i + 1)) : nullptr);
      ASSERT_EQ(object->right, 2 * i + 2 < count ? reinterpret_cast<TreeObject*>(base + 24 * (2 * i + 2)) : nullptr);
    }
    release(tree, Placement::kCompact);
  }
}

TEST_F(Layout, AlignGivesEveryObjectCacheLinesOfItsOwn) {
  SizeClass c = make(Shape::kList, 50, 70);
  ASSERT_TRUE(allocate(c, Placement::kAlign));
  for (void* object : allocated) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % kit::kCacheLine, 0u);
    for (void* other : allocated) {
      if (object == other) continue;
      EXPECT_GE(std::abs(static_cast<char*>(object) - static_cast<char*>(other)), 128);
    }
  }
  release(c, Placement::kAlign);
}

TEST_F(Layout, AFailedAllocationIsToldAndWhatWasMadeCanBeFreed) {
  for (const Shape shape : {Shape::kList, Shape::kTree}) {
    for (int reached = 0; reached < 12; ++reached) {
      SetUp();
      failures_after = reached;
      SizeClass c = make(shape, 20, 32);
      ASSERT_FALSE(allocate(c, Placement::kHeap));
      failures_after = -1;
      if (shape == Shape::kList) {
        ASSERT_EQ(made_, static_cast<std::uint32_t>(reached));
      }
      release(c, Placement::kHeap);
      ASSERT_EQ(freed.size(), allocated.size());
    }
  }
}

// The published code writes every node of a tree whatever the ratio, and realises 1 / floor(100 / w) for lists.
TEST_F(Layout, TheWriteRatioIsExactForListsAndTrees) {
  for (const std::uint64_t ratio : {0u, 1u, 10u, 30u, 51u, 75u, 99u, 100u}) {
    Access access{ratio, 1, Reads::kLinks, false};
    SizeClass list = make(Shape::kList, 777, 40), tree = make(Shape::kTree, 223, 40);
    ASSERT_TRUE(allocate(list, Placement::kHeap));
    ASSERT_TRUE(allocate(tree, Placement::kHeap));
    for (int i = 0; i < 3; ++i) {
      access.visit(list);
      access.visit(tree);
    }
    EXPECT_EQ(access.objects, 3000u);
    EXPECT_EQ(access.written, 3000 * ratio / 100);
    release(list, Placement::kHeap);
    release(tree, Placement::kHeap);
  }
}

TEST_F(Layout, AWriteChangesThePayloadOnceAndLeavesLinksAlone) {
  SizeClass c = make(Shape::kTree, 7, 29);
  ASSERT_TRUE(allocate(c, Placement::kCompact));
  auto* bytes = static_cast<unsigned char*>(c.head);
  for (std::uint64_t i = 0; i < 7; ++i)
    for (std::uint64_t k = 16; k < 32; ++k) bytes[i * 32 + k] = 0;
  const std::vector<unsigned char> before(bytes, bytes + 7 * 32);
  Access access{100, 3, Reads::kLinks, false};
  access.visit(c);
  for (std::uint64_t i = 0; i < 7; ++i) {
    const unsigned char* object = bytes + i * 32;
    for (std::uint64_t k = 0; k < 16; ++k) ASSERT_EQ(object[k], before[i * 32 + k]);
    EXPECT_EQ(object[16], 3);  // the one whole word of payload
    for (std::uint64_t k = 17; k < 24; ++k) EXPECT_EQ(object[k], 0);
    for (std::uint64_t k = 24; k < 29; ++k) EXPECT_EQ(object[k], 3);  // the bytes behind it
    for (std::uint64_t k = 29; k < 32; ++k) EXPECT_EQ(object[k], 0);  // beyond the object
  }
  release(c, Placement::kCompact);
}

TEST_F(Layout, EveryNthOperationIsTimedOnItsOwn) {
  static kit::LatencyHistogram histogram{};
  kit::SampledTiming sampler{&histogram, 10, 0};
  SizeClass c = make(Shape::kList, 1000, 32);
  std::uint32_t made = 0;
  ASSERT_TRUE(allocate_class(c, Placement::kHeap, sampler, made));
  EXPECT_EQ(histogram.total(), 100u);
  release(c, Placement::kHeap);
}

}  // namespace
}  // namespace heapyard::acdc
