// SPDX-License-Identifier: Apache-2.0
// Spans of each size class: which blocks are free, and from which span the next comes.
//
// Idea: a span is a run of pages without a header; a bit per block in its record says what is free. Blocks come from
// the span with the lowest address that has room, the lowest first. So the upper spans become empty, and an empty span
// goes back to the runs at once. A class with few live bytes gets small spans (policy/page_classes.hpp). Where little
// is in use, the first few blocks of a class come from spans of larger ones. Cost: a lock for a batch; then O(1) per
// block, and O(log N) of N spans with room when a span becomes full, has room again, or becomes empty. Threads: any.
// Lock order: a class, then the runs.
//
// INVARIANT: a span is in its class's tree if and only if it has a free block; the first of the tree is `lowest`.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/policy/page_classes.hpp"
#include "heap/core/red_black_tree.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

template <RunSource RunsT>
class PageSpans {
 public:
  using Runs = RunsT;
  using Map = typename Runs::Map;
  using Classes = policy::PageClasses;
  static constexpr unsigned kClasses = Classes::kClasses;

  constexpr explicit PageSpans(Runs& runs) : runs_(runs) {}

  // Up to n blocks, the lowest last; 0 when memory is out.
  unsigned allocate(unsigned c, void** blocks, unsigned n) {
    Spans& spans = spans_[c];
    const os::Locked locked(spans.lock);
    void** end = blocks + n;
    while (end != blocks) {  // bound: n spans
      PageRun* span = spans.lowest;
      if (span == nullptr) {
        if (end != blocks + n) break;
        span = make(spans, c);
        if (span == nullptr) break;
      }
      end = take(span, c, blocks, end);
      if (span->free_blocks == 0) is_full(spans, span);
    }
    const auto got = static_cast<unsigned>(blocks + n - end);
    if (end != blocks) std::memmove(blocks, end, got * sizeof(void*));
    spans.used += got;
    return got;
  }

  // A block of one of the next classes in place of the first few of class `c`, or null: so a small program touches
  // fewer pages. It is a block of that class from now on. O(1), at most kBorrowsFrom + 1 locks, one after the other.
  void* borrow(unsigned c) {
    if (runs_.used_bytes() > kLittle) return nullptr;
    {
      const os::Locked locked(spans_[c].lock);
      if (spans_[c].used != 0 || spans_[c].borrowed == kMostBorrowed) return nullptr;
    }
    const std::size_t most = 2 * Classes::bytes_of(c);
    const unsigned last = c + kBorrowsFrom < kClasses ? c + kBorrowsFrom : kClasses - 1;
    for (unsigned other = c + 1; other <= last && Classes::bytes_of(other) <= most; ++other) {  // bound: kBorrowsFrom
      Spans& spans = spans_[other];
      const os::Locked locked(spans.lock);
      if (spans.lowest == nullptr) continue;
      void* block;
      PageRun* span = spans.lowest;
      take(span, other, &block, &block + 1);
      if (span->free_blocks == 0) is_full(spans, span);
      ++spans.used;
      ++spans_[c].borrowed;
      return block;
    }
    return nullptr;
  }

  // Blocks of one class. Those of one span, one after the other, share a look at the map.
  void free(unsigned c, void* const* blocks, unsigned n) {
    Spans& spans = spans_[c];
    const os::Locked locked(spans.lock);
    for (unsigned i = 0; i < n;) {  // bound: n
      Map& map = runs_.map();
      PageRun* const span = map.run_of(map.page_of(blocks[i]));
      const auto start = reinterpret_cast<std::uintptr_t>(runs_.memory_of(span));
      const std::size_t bytes = runs_.bytes_of(span);
      const bool lies_here = reinterpret_cast<std::uintptr_t>(blocks[i]) - start < bytes;
      if (span->kind != PageRun::kSpan || span->size_class != c || !lies_here) [[unlikely]] {
        ++i;  // freed twice, and its span is gone
        continue;
      }
      unsigned freed = 0, first = span->first_word;
      for (; i < n; ++i) {
        const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(blocks[i]) - start;
        if (at >= bytes) break;
        const unsigned index = Classes::index_of(c, at), word = index / 64;
        const std::uint64_t before = span->free[word], after = before | std::uint64_t{1} << index % 64;
        span->free[word] = after;
        freed += before != after;  // else it was freed twice
        first = word < first ? word : first;
      }
      span->first_word = static_cast<std::uint8_t>(first);
      const unsigned had = span->free_blocks, has = had + freed;
      span->free_blocks = static_cast<std::uint16_t>(has);
      spans.used -= freed;
      if (has == span->blocks) {
        if (had != 0) {
          spans.tree.erase(span);
          if (spans.lowest == span) spans.lowest = spans.first();
        }
        put_back(span);
      } else if (had == 0 && has != 0) {
        insert(spans, span);
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
  static constexpr std::size_t kLittle = std::size_t{256} << 10;  // bytes in use
  static constexpr unsigned kBorrowsFrom = 4, kMostBorrowed = 4;  // classes; blocks of a class

  using Tree = core::RedBlackTree<TreeNode, &TreeNode::links>;
  struct alignas(64) Spans {
    os::Lock lock;
    PageRun* lowest = nullptr;
    std::size_t used = 0;  // blocks that are not free in their span
    std::atomic<std::uint8_t> borrowed = 0;
    TreeNode nil{};
    Tree tree{&nil};
    PageRun* first() { return tree.empty() ? nullptr : static_cast<PageRun*>(tree.last(0)); }
  };

  static void is_full(Spans& spans, PageRun* span) {
    spans.tree.erase(span);
    spans.lowest = spans.first();
  }

  // Takes the first free blocks of a span, and writes them from `end` downwards, to `blocks` at most. The last written.
  void** take(PageRun* span, unsigned c, void** blocks, void** end) {
    const auto memory = reinterpret_cast<std::uintptr_t>(runs_.memory_of(span));
    const std::size_t bytes = Classes::bytes_of(c);
    const auto most = static_cast<unsigned>(end - blocks);
    const unsigned n = span->free_blocks < most ? span->free_blocks : most;
    void** const last = end - n;
    for (unsigned word = span->first_word;; ++word) {  // bound: the words of a span
      std::uint64_t bits = span->free[word];
      const std::uintptr_t first = memory + word * 64 * bytes;
      for (; bits != 0 && end != last; bits &= bits - 1)
        *--end = reinterpret_cast<void*>(first + static_cast<unsigned>(std::countr_zero(bits)) * bytes);
      span->free[word] = bits;
      if (end == last) {
        span->first_word = static_cast<std::uint8_t>(word);
        break;
      }
    }
    span->free_blocks = static_cast<std::uint16_t>(span->free_blocks - n);
    return end;
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
