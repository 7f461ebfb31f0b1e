// SPDX-License-Identifier: Apache-2.0
// Spans of each size class: which blocks are free, and from which span the next comes.
//
// Idea: a span is a run of pages without a header; a bit per block in its record says what is free. Blocks come from
// the span with the lowest address that has room, the lowest first. So the upper spans become empty, and an empty span
// goes back to the runs at once. A class with few live bytes gets small spans (policy/page_classes.hpp). Where little
// is in use, the first few blocks of a class come from spans of larger ones.
// Each class has several parts, with a lock and spans of its own each. All threads take blocks from the first part
// until one finds it locked: then that thread goes on to the next part. So threads that meet here part, and share no
// span any more; and where none meet, there is one part. Cost: a lock for a batch; then O(1) per block, and O(log N) of
// N spans with room when a span becomes full, has room again, or becomes empty. Threads: any. Lock order: a class, then
// the runs.
//
// INVARIANT: a span is in the tree of its class and part if and only if it has a free block; the first of the tree is
// `lowest`.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "heap/policy/page_classes.hpp"
#include "heap/core/red_black_tree.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

// Parts: of each class. Pages: where all parts but the first lie.
template <RunSource RunsT, PageSource Pages, unsigned Parts = 4>
class PageSpans {
 public:
  using Runs = RunsT;
  using Map = typename Runs::Map;
  using Classes = policy::PageClasses;
  static constexpr unsigned kClasses = Classes::kClasses, kParts = Parts;

  constexpr explicit PageSpans(Runs& runs) : runs_(runs) {}

  // Up to n blocks, the lowest last; 0 when memory is out. `part`: the calling thread's, 0 at first; another from now
  // on, if it met one there.
  unsigned allocate(unsigned c, void** blocks, unsigned n, unsigned& part) {
    Spans& spans = lock(c, part);
    const os::Locked locked(spans.lock, os::kLockedAlready);
    if (const unsigned got = take_from(spans, c, blocks, n)) return got;
    if (const unsigned got = take_elsewhere(c, part, blocks, n)) return got;
    return make(spans, c, part) == nullptr ? 0 : take_from(spans, c, blocks, n);
  }

  // A block of one of the next classes in place of the first few of class `c`, or null: so a small program touches
  // fewer pages. It is a block of that class from now on. O(1), at most kBorrowsFrom + 1 locks, one after the other.
  void* borrow(unsigned c) {
    if (runs_.used_bytes() > kLittle) return nullptr;
    {
      const os::Locked locked(first_[c].lock);
      if (first_[c].used != 0 || first_[c].borrowed == kMostBorrowed) return nullptr;
    }
    const std::size_t most = 2 * Classes::bytes_of(c);
    const unsigned last = c + kBorrowsFrom < kClasses ? c + kBorrowsFrom : kClasses - 1;
    for (unsigned other = c + 1; other <= last && Classes::bytes_of(other) <= most; ++other) {  // bound: kBorrowsFrom
      Spans& spans = first_[other];
      const os::Locked locked(spans.lock);
      if (spans.lowest == nullptr) continue;
      void* block;
      PageRun* span = spans.lowest;
      take(span, other, &block, &block + 1);
      if (span->free_blocks == 0) is_full(spans, span);
      ++spans.used;
      ++first_[c].borrowed;
      return block;
    }
    return nullptr;
  }

  // Blocks of one class. Those of one part, one after the other, share a lock; those of one span a look at the map.
  void free(unsigned c, void* const* blocks, unsigned n) {
    for (unsigned i = 0; i < n;) {  // bound: n
      const unsigned part = run_of(blocks[i])->part;
      i = free_in(part, c, blocks, i, n);
    }
  }

  // Blocks of a class that were handed out, in whatever cache they lie. O(parts).
  std::size_t used_blocks(unsigned c) {
    std::size_t blocks = 0;
    for (unsigned part = 0; part < there(); ++part) {
      Spans& spans = at(c, part);
      const os::Locked locked(spans.lock);
      blocks += spans.used;
    }
    return blocks;
  }
  // O(classes x parts).
  std::size_t used_bytes() {
    std::size_t bytes = 0;
    for (unsigned c = 1; c < kClasses; ++c) bytes += used_blocks(c) * Classes::bytes_of(c);
    return bytes;
  }

  // Parts: the first, and all once one more was needed.
  unsigned there() const { return more_.load(std::memory_order_acquire) == nullptr ? 1 : Parts; }
  Runs& runs() { return runs_; }

  // For tests: whether every INVARIANT holds. O(spans).
  bool consistent();

 private:
  static constexpr std::size_t kLittle = std::size_t{256} << 10;  // bytes in use
  static constexpr std::size_t kDense = std::size_t{16} << 10;    // bytes of a block: at worst one page of four is used
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

  Spans& at(unsigned c, unsigned part) {
    return part == 0 ? first_[c] : more_.load(std::memory_order_acquire)[(part - 1) * kClasses + c];
  }

  // Locked; `part` is another from now on if somebody else has it.
  Spans& lock(unsigned c, unsigned& part) {
    Spans& own = at(c, part);
    if (own.lock.try_lock()) [[likely]]
      return own;
    if (Parts > 1 && (there() == Parts || make_more())) part = (part + 1) % Parts;
    Spans& spans = at(c, part);
    spans.lock.lock();
    return spans;
  }

  // Whether the other parts are there now.
  [[gnu::noinline, gnu::cold]] bool make_more() {
    constexpr std::size_t kBytes = (Parts - 1) * kClasses * sizeof(Spans);
    auto* made = static_cast<Spans*>(Pages::map(kBytes));
    if (made == nullptr) return false;
    for (unsigned i = 0; i < (Parts - 1) * kClasses; ++i) new (made + i) Spans;
    Spans* none = nullptr;
    if (!more_.compare_exchange_strong(none, made, std::memory_order_acq_rel)) Pages::unmap(made, kBytes);
    return true;
  }

  // Up to n blocks of spans that are there, the lowest last. Bound: n spans.
  unsigned take_from(Spans& spans, unsigned c, void** blocks, unsigned n) {
    void** end = blocks + n;
    while (end != blocks && spans.lowest != nullptr) {
      PageRun* span = spans.lowest;
      end = take(span, c, blocks, end);
      if (span->free_blocks == 0) is_full(spans, span);
    }
    const auto got = static_cast<unsigned>(blocks + n - end);
    if (end != blocks) std::memmove(blocks, end, got * sizeof(void*));
    spans.used += got;
    return got;
  }

  // The same of another part that nobody is at: before a new span, so that no part grows while another has room.
  unsigned take_elsewhere(unsigned c, unsigned part, void** blocks, unsigned n) {
    for (unsigned turn = 1; turn < there(); ++turn) {
      Spans& other = at(c, (part + turn) % Parts);
      if (!other.lock.try_lock()) continue;
      const os::Locked locked(other.lock, os::kLockedAlready);
      if (const unsigned got = take_from(other, c, blocks, n)) return got;
    }
    return 0;
  }

  PageRun* run_of(const void* block) { return runs_.map().run_of(runs_.map().page_of(block)); }

  // Frees blocks from the i-th on while they are of this part. How many of the n are done then: more than i, unless the
  // i-th was freed twice, and its span became another part's just now.
  unsigned free_in(unsigned part, unsigned c, void* const* blocks, unsigned i, unsigned n) {
    if (part >= there()) return i + 1;  // freed twice, and its record is another's
    Spans& spans = at(c, part);
    const os::Locked locked(spans.lock);
    while (i < n) {  // bound: n
      PageRun* const span = run_of(blocks[i]);
      const auto start = reinterpret_cast<std::uintptr_t>(runs_.memory_of(span));
      const std::size_t bytes = runs_.bytes_of(span);
      const bool lies_here = reinterpret_cast<std::uintptr_t>(blocks[i]) - start < bytes;
      if (span->kind != PageRun::kSpan || span->size_class != c || !lies_here) [[unlikely]] {
        ++i;  // freed twice, and its span is gone
        continue;
      }
      if (span->part != part) break;
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
    return i;
  }

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

  [[gnu::noinline]] PageRun* make(Spans& spans, unsigned c, unsigned part) {
    const std::size_t live = spans.used * Classes::bytes_of(c);
    const unsigned least = Classes::pages_of(c, 0);
    unsigned pages = Classes::pages_of(c, live);
    const bool dense = Classes::bytes_of(c) <= kDense;
    PageRun* span = runs_.allocate(pages, 1, PageRun::kSpan, dense);
    if (span == nullptr && pages != least) span = runs_.allocate(pages = least, 1, PageRun::kSpan);
    if (span == nullptr) return nullptr;
    const unsigned blocks = Classes::blocks_of(c, pages);
    span->size_class = static_cast<std::uint8_t>(c);
    span->blocks = span->free_blocks = static_cast<std::uint16_t>(blocks);
    span->first_word = 0;
    span->part = static_cast<std::uint8_t>(part);
    for (unsigned word = 0; word < Classes::kMostBlocks / 64; ++word) {
      const unsigned first = word * 64, here = blocks <= first ? 0 : blocks - first;
      span->free[word] = here >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    }
    runs_.name_class(span, static_cast<std::uint8_t>(c));
    insert(spans, span);
    return span;
  }

  void put_back(PageRun* span) {
    runs_.name_class(span, 0);
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
  Spans first_[kClasses];
  std::atomic<Spans*> more_{nullptr};  // of the other parts, by part and class
};

}  // namespace heapyard
