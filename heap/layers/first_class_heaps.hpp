// SPDX-License-Identifier: Apache-2.0
// Heaps that a program makes while it runs: their blocks go back one by one, or all at once.
//
// Idea: such a heap takes spans and large blocks from the same runs of pages as everything else. But its pages have no
// class in the table, so free() of one of its blocks takes the slow path, and finds there that the record of the run
// names a heap. Each has spans of its own (spans/page_spans.hpp), with a lock per class, and no magazines. Where a
// thread may not enter, because it is in the middle of a visit or another forks, its block is a mapping: these lie on
// a list, and go back with the heap only. Cost: make O(1), kPages pages; allocate and free a lock and O(log N) of N
// spans; destroy O(runs). Threads: any; destroy() alone. All but allocate_lone() by a thread that is inside.
//
// INVARIANT: the record of a run has an owner if and only if the run lies on that heap's list, or holds the heap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/backend/page_map.hpp"
#include "heap/layers/spans/page_spans.hpp"
#include "heap/os/lock.hpp"

namespace heapyard {

// The runs of one heap, on a list.
template <class RunsT>
class OwnedRuns {
 public:
  using Map = typename RunsT::Map;
  OwnedRuns(RunsT& runs, std::uint32_t owner) : runs_(runs), owner_(owner) {}

  PageRun* allocate(std::uint32_t pages, std::uint32_t alignment, PageRun::Kind kind, bool dense = false) {
    PageRun* run = runs_.allocate(pages, alignment, kind, dense);
    if (run == nullptr) return nullptr;
    if (kind == PageRun::kSpan) span_bytes_.fetch_add(bytes_of(run), std::memory_order_relaxed);
    const os::Locked locked(lock_);
    run->owner = owner_;
    run->owned_before = 0;
    run->owned_after = first_;
    if (first_ != 0) map().run_of(first_)->owned_before = run->page;
    first_ = run->page;
    pages_ += pages;
    return run;
  }
  void free(PageRun* run) {
    if (run->kind == PageRun::kSpan) span_bytes_.fetch_sub(bytes_of(run), std::memory_order_relaxed);
    {
      const os::Locked locked(lock_);
      (run->owned_before == 0 ? first_ : map().run_of(run->owned_before)->owned_after) = run->owned_after;
      if (run->owned_after != 0) map().run_of(run->owned_after)->owned_before = run->owned_before;
      run->owner = 0;
      pages_ -= run->pages;
    }
    runs_.free(run);
  }
  // O(runs).
  void free_all() {
    while (first_ != 0) free(map().run_of(first_));  // bound: the runs
  }

  std::size_t bytes() {
    const os::Locked locked(lock_);
    return std::size_t{pages_} * policy::kSmallPage;
  }

  // Of the spans of all heaps.
  static std::size_t span_bytes() { return span_bytes_.load(std::memory_order_relaxed); }

  // What spans ask of their runs. Their pages have no class, so free() comes here.
  void name_class(PageRun*, std::uint8_t) {}
  void* memory_of(const PageRun* run) const { return runs_.memory_of(run); }
  static std::size_t bytes_of(const PageRun* run) { return RunsT::bytes_of(run); }
  std::size_t used_bytes() const { return runs_.used_bytes(); }
  Map& map() { return runs_.map(); }

 private:
  RunsT& runs_;
  const std::uint32_t owner_;  // the first page of the heap
  std::uint32_t first_ = 0, pages_ = 0;
  os::Lock lock_;
  static inline constinit std::atomic<std::size_t> span_bytes_{0};
};

// Parts: the composition. Its Outside are pages that do not lie in the window.
template <class Parts>
class FirstClassHeaps {
  using Runs = OwnedRuns<typename Parts::Runs>;
  using Spans = PageSpans<Runs, typename Parts::Outside, 1>;
  using Classes = typename Spans::Classes;
  using Lone = LoneMapping<typename Parts::Outside>;

 public:
  struct Heap {
    Runs runs;
    Spans spans{runs};
    std::atomic<std::uintptr_t> lone{kEnd};  // mappings; each names the next in the word before its block
    explicit Heap(std::uint32_t page) : runs(Parts::runs, page) {}
  };
  static constexpr std::uint32_t kPages = (sizeof(Heap) + policy::kSmallPage - 1) / policy::kSmallPage;

  // Null when memory is out.
  static Heap* make() {
    PageRun* run = Parts::runs.allocate(kPages, 1, PageRun::kLarge);
    if (run == nullptr) return nullptr;
    run->owner = run->page;
    return new (Parts::runs.memory_of(run)) Heap(run->page);
  }

  // Every block that it still has is gone.
  static void destroy(Heap* heap) {
    PageRun* own = run_of(heap);
    heap->runs.free_all();
    for (std::uintptr_t at = heap->lone.load(std::memory_order_relaxed); at != kEnd;) {  // bound: the mappings
      auto* block = reinterpret_cast<std::uintptr_t*>(at);
      at = block[-1] & ~kOwned;
      Lone::free(block);
    }
    own->owner = 0;
    Parts::runs.free(own);
  }

  // Null when memory is out. `alignment`: a power of two. `zero`: whether the block is.
  static void* allocate(Heap* heap, std::size_t bytes, std::size_t alignment, bool& zero) {
    zero = false;
    if (bytes > kMost || alignment > kMost) return nullptr;
    const std::size_t multiple = bytes <= alignment ? alignment : os::round_up(bytes, alignment);
    if (alignment <= Classes::kMostAligned && multiple <= Classes::kLargest) {
      void* block;
      unsigned part = 0;
      return heap->spans.allocate(Classes::class_of(multiple), &block, 1, part) == 1 ? block : nullptr;
    }
    PageRun* run = heap->runs.allocate(pages_of(bytes), pages_of(alignment), PageRun::kLarge);
    if (run == nullptr) return nullptr;
    zero = run->zero;
    return Parts::runs.memory_of(run);
  }

  // For a thread that may not enter. Null when memory is out. It stays until the heap goes.
  static void* allocate_lone(Heap* heap, std::size_t bytes, std::size_t alignment) {
    if (bytes > kMost || alignment > kMost) return nullptr;
    void* block = Lone::allocate(bytes, alignment);
    if (block == nullptr) return nullptr;
    std::uintptr_t next = heap->lone.load(std::memory_order_relaxed);
    do {
      static_cast<std::uintptr_t*>(block)[-1] = next | kOwned;
    } while (!heap->lone.compare_exchange_weak(next, reinterpret_cast<std::uintptr_t>(block), std::memory_order_release,
                                               std::memory_order_relaxed));
    return block;
  }
  // Of a block outside of the window: whether it is such a one.
  static bool owns_lone(const void* block) { return static_cast<const std::uintptr_t*>(block)[-1] & kOwned; }

  // Of a block whose run has an owner. What is no block of it is left alone.
  static void free(PageRun* run, void* block) {
    Heap* heap = heap_of(run);
    if (run->kind == PageRun::kSpan) {
      heap->spans.free(run->size_class, &block, 1);
    } else if (run->page != run->owner && Parts::runs.memory_of(run) == block) {
      heap->runs.free(run);
    }
  }

  // Of a large block, or of one whose run has an owner.
  [[gnu::noinline]] static std::size_t usable(const PageRun* run) {
    return run->kind == PageRun::kSpan ? Classes::bytes_of(run->size_class) : Parts::runs.bytes_of(run);
  }

  // Null: of none.
  static Heap* heap_of(const PageRun* run) {
    return run->owner == 0 ? nullptr : reinterpret_cast<Heap*>(Parts::map.address_of(run->owner));
  }

  // Of the spans of all such heaps, which count neither as large blocks nor as classes.
  static std::size_t span_bytes() { return Runs::span_bytes(); }

 private:
  static constexpr std::uintptr_t kOwned = 1, kEnd = 0;
  static constexpr std::size_t kMost = std::size_t{1} << 40;  // whose pages 32 bits can count

  static PageRun* run_of(const void* block) { return Parts::map.run_of(Parts::map.page_of(block)); }
  static std::uint32_t pages_of(std::size_t bytes) {
    return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + policy::kSmallPage - 1) / policy::kSmallPage);
  }
};

}  // namespace heapyard
