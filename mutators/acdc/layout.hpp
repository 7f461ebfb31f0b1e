// SPDX-License-Identifier: Apache-2.0
// Allocating, visiting and freeing the objects of one class: as list or tree, on the heap, compact or cache-line
// aligned.
//
// List: word 0 of an object points to the next; visited and freed in the order of allocation. Tree: words 0 and 1 point
// to the children; objects have the numbers of a complete binary tree (children of i: 2i + 1 and 2i + 2), are allocated
// in pre-order left to right, visited and freed in the mirrored pre-order, right to left (paper, section 2 and Figure
// 2). The compact placement stores object i at index i of one block, so both placements have the same shape and differ
// in layout alone. All operations are O(1) per object; the recursion is as deep as the tree, log2 of the count.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "../kit/arena.hpp"
#include "../kit/sampled_timing.hpp"
#include "options.hpp"
#include "size_class.hpp"

namespace heapyard::acdc {

struct ListObject {
  ListObject* next;
};
struct TreeObject {
  TreeObject* left;
  TreeObject* right;
};

// Distance of objects in a compact block: links and payload words stay aligned.
constexpr std::uint64_t compact_stride(std::uint64_t size) { return kit::round_up(size, 8); }

// One object from the heap under test; null when it has none.
inline void* allocate_object(Placement placement, std::uint64_t size) {
  if (placement == Placement::kHeap) return std::malloc(size);
  return std::aligned_alloc(kit::kCacheLine, kit::round_up(size, kit::kCacheLine));
}

// Operations that nobody times; the others are under a kit::SampledTiming.
struct Untimed {
  template <class Operation>
  auto around(Operation operation) {
    return operation();
  }
};

// Allocates objects; `made` counts them, so that a failure says how far it came. Returns false when the heap has none.
template <class Sample>
bool allocate_list(SizeClass& c, Placement placement, Sample& sample, std::uint32_t& made) {
  auto* first = static_cast<ListObject*>(sample.around([&] { return allocate_object(placement, c.size); }));
  c.head = first;
  if (!first) return false;
  made = 1;
  ListObject* last = first;
  while (made < c.count) {
    auto* object = static_cast<ListObject*>(sample.around([&] { return allocate_object(placement, c.size); }));
    last->next = object;
    if (!object) return false;
    ++made;
    last = object;
  }
  last->next = nullptr;
  return true;
}

template <class Sample>
TreeObject* allocate_subtree(SizeClass& c, Placement placement, Sample& sample, std::uint32_t& made,
                             std::uint64_t index) {
  if (index >= c.count) return nullptr;
  auto* object = static_cast<TreeObject*>(sample.around([&] { return allocate_object(placement, c.size); }));
  if (!object) return nullptr;
  ++made;
  object->right = nullptr;  // a failure below leaves a tree that can be freed
  object->left = allocate_subtree(c, placement, sample, made, 2 * index + 1);
  object->right = allocate_subtree(c, placement, sample, made, 2 * index + 2);
  return object;
}

// One block for the whole class. Nothing depends on its contents but the links.
inline bool allocate_compact(SizeClass& c, std::uint32_t& made) {
  const std::uint64_t stride = compact_stride(c.size);
  auto* block = static_cast<std::byte*>(std::malloc(stride * c.count));
  c.head = block;
  if (!block) return false;
  made = c.count;
  for (std::uint64_t i = 0; i < c.count; ++i) {
    if (c.shape == Shape::kList) {
      auto* object = reinterpret_cast<ListObject*>(block + i * stride);
      object->next = i + 1 < c.count ? reinterpret_cast<ListObject*>(block + (i + 1) * stride) : nullptr;
    } else {
      auto* object = reinterpret_cast<TreeObject*>(block + i * stride);
      auto child = [&](std::uint64_t k) {
        return k < c.count ? reinterpret_cast<TreeObject*>(block + k * stride) : nullptr;
      };
      object->left = child(2 * i + 1);
      object->right = child(2 * i + 2);
    }
  }
  return true;
}

template <class Sample>
bool allocate_class(SizeClass& c, Placement placement, Sample& sample, std::uint32_t& made) {
  made = 0;
  if (placement == Placement::kCompact) return allocate_compact(c, made);
  if (c.shape == Shape::kList) return allocate_list(c, placement, sample, made);
  c.head = allocate_subtree(c, placement, sample, made, 0);
  return made == c.count;
}

template <class Sample>
void free_subtree(TreeObject* object, Sample& sample, bool post_order) {
  if (!object) return;
  TreeObject* const left = object->left;
  TreeObject* const right = object->right;
  if (post_order) {  // quirk of the published code: left, right, node
    free_subtree(left, sample, true);
    free_subtree(right, sample, true);
    sample.around([&] { std::free(object); });
    return;
  }
  sample.around([&] { std::free(object); });
  free_subtree(right, sample, false);
  free_subtree(left, sample, false);
}

template <class Sample>
void free_class(SizeClass& c, Placement placement, Sample& sample, bool post_order) {
  if (placement == Placement::kCompact) {
    std::free(c.head);
  } else if (c.shape == Shape::kList) {
    for (auto* object = static_cast<ListObject*>(c.head); object;) {
      ListObject* const next = object->next;
      sample.around([&] { std::free(object); });
      object = next;
    }
  } else {
    free_subtree(static_cast<TreeObject*>(c.head), sample, post_order);
  }
}

// What an access does to objects; one per thread. Which objects are written is exact: after n objects, floor(n w /
// 100).
struct Access {
  std::uint64_t write_ratio;  // percent
  std::uint64_t iterations;
  Reads reads;
  bool compat;               // trees are written whole, lists every floor(100 / w)-th object
  std::uint64_t credit = 0;  // INVARIANT: below 100
  std::uint64_t sink = 0;    // keeps reads from being optimised away
  std::uint64_t objects = 0, written = 0;

  bool writes_next(Shape shape, std::uint64_t position) {
    if (compat) {
      if (write_ratio == 0) return false;
      return shape == Shape::kTree || position % (100 / write_ratio) == 0;
    }
    credit += write_ratio;
    if (credit < 100) return false;
    credit -= 100;
    return true;
  }

  // Shared objects are touched by several threads at once, as in the paper: relaxed atomics, which cost a plain move.
  void touch(void* object, std::uint64_t size, Shape shape, std::uint64_t position) {
    ++objects;
    auto* const words = static_cast<std::uint64_t*>(object);
    const std::uint64_t first = header_bytes(shape) / 8, end = size / 8;
    if (writes_next(shape, position)) {
      ++written;
      for (std::uint64_t k = 0; k < iterations; ++k) {
        for (std::uint64_t i = first; i < end; ++i) {
          std::atomic_ref word(words[i]);
          word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        auto* const bytes = static_cast<std::uint8_t*>(object);
        for (std::uint64_t i = end * 8; i < size; ++i) {
          std::atomic_ref byte(bytes[i]);
          byte.store(static_cast<std::uint8_t>(byte.load(std::memory_order_relaxed) + 1), std::memory_order_relaxed);
        }
      }
    } else if (reads == Reads::kPayload) {
      for (std::uint64_t i = first; i < end; ++i) sink += std::atomic_ref(words[i]).load(std::memory_order_relaxed);
    }
  }

  void visit_subtree(TreeObject* object, std::uint64_t size) {
    if (!object) return;
    touch(object, size, Shape::kTree, 0);
    visit_subtree(object->right, size);
    visit_subtree(object->left, size);
  }

  void visit(const SizeClass& c) {
    if (c.shape == Shape::kList) {
      std::uint64_t position = 0;
      for (auto* object = static_cast<ListObject*>(c.head); object; object = object->next)
        touch(object, c.size, Shape::kList, position++);
    } else {
      visit_subtree(static_cast<TreeObject*>(c.head), c.size);
    }
  }
};

}  // namespace heapyard::acdc
