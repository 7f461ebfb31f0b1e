// SPDX-License-Identifier: Apache-2.0
// Spans of each size class: which blocks are free, and from which span the next comes.
//
// Idea: a span is a run of pages without a header; a bit per block in its record says what is free. Blocks come from
// the span with the lowest address that has room, the lowest first. So the upper spans become empty, and an empty span
// goes back to the runs at once. A class with few live bytes gets small spans (core/page_classes.hpp).
// Cost: a lock for a batch; then O(1) per block, and O(log N) of N spans with room when a span becomes full, has room
// again, or becomes empty. Threads: any. Lock order: a class, then the runs.
//
// INVARIANT: a span is in its class's tree if and only if it has a free block; the first of the tree is `lowest`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/core/page_classes.hpp"
#include "heap/core/red_black_tree.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

template <class RunsT>
class PageSpans {
 public:
  using Runs = RunsT;
  using Map = typename Runs::Map;
  using Classes = core::PageClasses;
  static constexpr unsigned kClasses = Classes::kClasses;

  constexpr explicit PageSpans(Runs& runs) : runs_(runs) {}

  // Up to n blocks, by rising address of each span; 0 when memory is out.
  unsigned allocate(unsigned c, void** blocks, unsigned n) {
    Spans& spans = spans_[c];
    const os::Locked locked(spans.lock);
    unsigned got = 0;
    while (got < n) {  // bound: n spans
      PageRun* span = spans.lowest;
      if (span == nullptr) {
        if (got != 0) break;
        span = make(spans, c);
        if (span == nullptr) break;
      }
      got += take(span, c, blocks + got, n - got);
      if (span->free_blocks == 0) {
        spans.tree.erase(span);
        spans.lowest = spans.first();
      }
    }
    spans.used += got;
    return got;
  }

  // Blocks of one class.
  void free(unsigned c, void* const* blocks, unsigned n) {
    Spans& spans = spans_[c];
    Map& map = runs_.map();
    const os::Locked locked(spans.lock);
    for (unsigned i = 0; i < n; ++i) {
      PageRun* span = map.run_of(map.page_of(blocks[i]));
      const auto at =
          static_cast<std::size_t>(static_cast<char*>(blocks[i]) - static_cast<char*>(runs_.memory_of(span)));
      const unsigned index = Classes::index_of(c, at), word = index / 64;
      const std::uint64_t bit = std::uint64_t{1} << index % 64;
      if (span->free[word] & bit) [[unlikely]]
        continue;  // freed twice
      span->free[word] |= bit;
      --spans.used;
      if (word < span->first_word) span->first_word = static_cast<std::uint8_t>(word);
      if (++span->free_blocks == 1) {
        if (span->blocks == 1) {
          put_back(span);
          continue;
        }
        insert(spans, span);
      } else if (span->free_blocks == span->blocks) {
        spans.tree.erase(span);
        if (spans.lowest == span) spans.lowest = spans.first();
        put_back(span);
      }
    }
  }

  // Of blocks that were handed out, in whatever cache they lie. O(classes).
  std::size_t used_bytes() {
    std::size_t bytes = 0;
    for (unsigned c = 1; c < kClasses; ++c) {
      const os::Locked locked(spans_[c].lock);
      bytes += spans_[c].used * Classes::bytes_of(c);
    }
    return bytes;
  }

  Runs& runs() { return runs_; }

  // For tests: whether every INVARIANT holds. O(spans).
  bool consistent();

 private:
  using Tree = core::RedBlackTree<TreeNode, &TreeNode::links>;
  struct alignas(64) Spans {
    os::Lock lock;
    PageRun* lowest = nullptr;
    std::size_t used = 0;  // blocks that are not free in their span
    TreeNode nil{};
    Tree tree{&nil};
    PageRun* first() { return tree.empty() ? nullptr : static_cast<PageRun*>(tree.last(0)); }
  };

  // Takes the first free blocks of a span.
  unsigned take(PageRun* span, unsigned c, void** blocks, unsigned n) {
    char* const memory = static_cast<char*>(runs_.memory_of(span));
    const std::size_t bytes = Classes::bytes_of(c);
    unsigned got = 0, word = span->first_word;
    while (got < n && got < span->free_blocks) {  // bound: n blocks and the words of a span
      std::uint64_t bits = span->free[word];
      for (; bits != 0 && got < n; bits &= bits - 1)
        blocks[got++] = memory + (word * 64 + static_cast<unsigned>(std::countr_zero(bits))) * bytes;
      span->free[word] = bits;
      if (bits == 0) ++word;
    }
    span->first_word = static_cast<std::uint8_t>(word);
    span->free_blocks = static_cast<std::uint16_t>(span->free_blocks - got);
    return got;
  }

  [[gnu::noinline]] PageRun* make(Spans& spans, unsigned c) {
    const std::size_t live = spans.used * Classes::bytes_of(c);
    const unsigned least = Classes::pages_of(c, 0);
    unsigned pages = Classes::pages_of(c, live);
    PageRun* span = runs_.allocate(pages, 1, PageRun::kSpan);
    if (span == nullptr && pages != least) span = runs_.allocate(pages = least, 1, PageRun::kSpan);
    if (span == nullptr) return nullptr;
    const unsigned blocks = Classes::blocks_of(c, pages);
    span->size_class = static_cast<std::uint8_t>(c);
    span->blocks = span->free_blocks = static_cast<std::uint16_t>(blocks);
    span->first_word = 0;
    for (unsigned word = 0; word < Classes::kMostBlocks / 64; ++word) {
      const unsigned first = word * 64, here = blocks <= first ? 0 : blocks - first;
      span->free[word] = here >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    }
    runs_.map().set_class(span, static_cast<std::uint8_t>(c));
    insert(spans, span);
    return span;
  }

  void put_back(PageRun* span) {
    runs_.map().set_class(span, 0);
    runs_.free(span);
  }

  static void insert(Spans& spans, PageRun* span) {
    Tree& tree = spans.tree;
    TreeNode* parent = tree.nil();
    int side = 0;
    for (TreeNode* here = tree.root(); here != tree.nil(); here = tree.child(here, side)) {  // O(log N)
      parent = here;
      side = static_cast<PageRun*>(here)->page < span->page;
    }
    tree.insert(span, parent, side);
    if (spans.lowest == nullptr || span->page < spans.lowest->page) spans.lowest = span;
  }

  Runs& runs_;
  Spans spans_[kClasses];
};

}  // namespace heapyard
