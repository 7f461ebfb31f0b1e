// SPDX-License-Identifier: Apache-2.0
// A heap whose blocks find their class in a table of pages; the storey below a composition.
//
// Idea: an address in the window lies on a page, of which a table says the size class, or that it is not of one: then
// it is of a large block, a run of pages of its own. A block outside of the window is a mapping of its own: one above
// kLargestRun, or one of a thread that may not enter. A block of a first-class heap lies in the window, and its page
// has no class. This file joins window, map, runs, spans, front end and mappings.
// Cost: up to the largest class that of the front end; beyond it that of the runs; above kLargestRun a system call.
// When memory is out, the address space behind the last run goes back, and the heap tries again. Errors: null with
// errno ENOMEM, or false.
#pragma once

#include <atomic>
#include <cstddef>

#include "heap/layers/first_class.hpp"
#include "heap/layers/first_class_heaps.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/page_concepts.hpp"
#include "heap/layers/process.hpp"
#include "heap/layers/range_blocks.hpp"
#include "heap/os/no_memory.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `spans` (the window), `map`, `runs`, `pool` (the spans of blocks),
// `front`, `large` (mappings) and types Front, Map, Large, Outside (pages for what is not in the window).
template <PageParts Parts>
class PageHeap {
  using Front = typename Parts::Front;
  using Classes = typename Front::Classes;
  using Visit = typename Front::Visit;
  using Large = typename Parts::Large;

  struct Layers {
    using Front = typename Parts::Front;
    static Front& front() { return Parts::front; }
    static void start() {
      Parts::spans.reserve();
      Parts::map.lay_out();
    }
  };
  using Process = heapyard::Process<Layers>;
  using Blocks = RangeBlocks<Process, Large, typename Parts::Outside, NoSampledBlocks>;
  using Lone = typename Blocks::Lone;

 public:
  static constexpr bool kSampled = Front::kSampled;
  static constexpr std::size_t kLargestRun = std::size_t{1} << 30;
  static constexpr std::size_t kMovable = std::size_t{2} << 20;
  static constexpr std::size_t kMostMoves = 8192;  // each may make two mappings more, of the system's 65,530

  // The hot path: the class, the thread's front end, done.
  static void* allocate(std::size_t bytes) {
    return Classes::is_small(bytes) ? allocate_class(Classes::small_class_of(bytes)) : allocate_other(bytes);
  }

  static void free(void* block) {
    if (!Parts::spans.contains(block)) [[unlikely]]
      return free_outside(block);
    const unsigned c = class_of(block);
    if (!Parts::front.free(c, block)) release(c, block);
  }

  // `alignment`: a power of two. Multiples of it up to a page are classes, and a span begins at a page.
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (alignment <= kAlignment) return allocate(bytes < alignment ? alignment : bytes);
    if (bytes <= Classes::kLargest && alignment <= Classes::kMostAligned) {
      const std::size_t multiple = bytes == 0 ? alignment : os::round_up(bytes, alignment);
      if (multiple <= Classes::kLargest) return allocate_class(Classes::class_of(multiple), alignment);
    }
    bool zero;
    return allocate_run(bytes, alignment, zero);
  }

  static void* allocate_zeroed(std::size_t bytes) {
    if (bytes > Classes::kLargest) {
      bool zero = false;
      void* block = allocate_run(bytes, kAlignment, zero);
      return zero || block == nullptr ? block : Blocks::zero(block, bytes);
    }
    void* block = allocate(bytes);
    return block == nullptr ? nullptr : std::memset(block, 0, bytes);
  }

  static bool resize(void* block, std::size_t bytes) {
    if (!Parts::spans.contains(block)) return Blocks::resize(Parts::large, block, bytes, kLargestRun);
    if (const unsigned c = class_of(block)) {
      const std::size_t now = Classes::bytes_of(c);
      return bytes <= now && bytes >= now / 2;
    }
    return resize_run(block, bytes);
  }

  // Another size elsewhere, without a copy by the caller; null: only that helps.
  static void* move(void* block, std::size_t bytes) {
    if (!Parts::spans.contains(block))
      return FirstClassHeaps::owns_lone(block) ? nullptr : Blocks::move(Parts::large, block, bytes);
    if (class_of(block) != 0) return nullptr;
    if (run_of(block)->owner != 0) return FirstClass<PageHeap>::move(block, bytes);
    return bytes >= kMovable ? move_run(block, bytes) : nullptr;
  }

  static std::size_t usable(const void* block) {
    if (!Parts::spans.contains(block)) return Blocks::usable(Parts::large, block);
    if (const unsigned c = class_of(block)) return Classes::bytes_of(c);
    return FirstClassHeaps::usable(run_of(block));
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // A visit during which work(visit) is done. False where this thread may not enter, in the middle of a visit or a fork
  // of its own: then nothing was done.
  template <class Work>
  static bool inside(Work work) {
    const Visit visit = Process::enter_patiently();
    if (visit.again) return false;
    work_off(Process::kAll);
    work(visit);
    Process::leave(visit);
    return true;
  }

  // Whether free memory was offered to the system.
  static bool trim() {
    return inside([](const Visit& visit) {
      Parts::front.trim(visit);
      Parts::runs.trim();
    });
  }

  // Mappings of single blocks are not counted. O(classes x threads). All zero where a thread may not enter.
  static HeapUsage usage() {
    HeapUsage usage{};
    inside([&](const Visit&) {
      const std::size_t cached = Parts::front.free_bytes();
      const std::size_t held = Parts::pool.used_bytes() + Parts::runs.large_bytes() + FirstClassHeaps::span_bytes();
      const std::size_t program = held > cached ? held - cached : 0;
      usage.mapped = Parts::runs.there_bytes();
      usage.free = usage.mapped > program ? usage.mapped - program : 0;
    });
    return usage;
  }

  // For its own interface (abi/heapyard.cpp): the layers, and the heaps that a program makes.
  using Layered = Parts;
  using FirstClassHeaps = heapyard::FirstClassHeaps<Parts>;

 private:
  static constexpr std::size_t kAlignment = 16;

  static void* allocate_class(unsigned c, std::size_t alignment = kAlignment) {
    void* block = Parts::front.allocate(c);
    return block != nullptr ? block : refill(c, alignment);
  }

  [[gnu::noinline]] static void* refill(unsigned c, std::size_t alignment) {
    const Visit visit = Process::enter();
    if (visit.again) return Blocks::allocate_lone(Classes::bytes_of(c), alignment);
    work_off(Process::kFew);
    void* block = alignment == kAlignment ? Parts::pool.borrow(c) : nullptr;
    if (block == nullptr) block = Parts::front.refill(visit, c);
    // The tables of the map may need the address space that free runs have.
    if (block == nullptr && Parts::runs.shrink()) [[unlikely]]
      block = Parts::front.refill(visit, c);
    Parts::runs.settle();
    Process::leave(visit);
    return block != nullptr ? block : Blocks::allocate_lone(Classes::bytes_of(c), alignment);
  }

  [[gnu::noinline]] static void release(unsigned c, void* block) {
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off(Process::kFew);
    release_inside(visit, c, block);
    Parts::runs.settle();
    Process::leave(visit);
  }
  static void release_inside(const Visit& visit, unsigned c, void* block) {
    if (c != 0) return Parts::front.release(visit, c, block);
    PageRun* run = run_of(block);
    if (run->owner != 0) return FirstClassHeaps::free(run, block);
    if (run->kind == PageRun::kLarge && Parts::runs.memory_of(run) == block) Parts::runs.free(run);
  }

  [[gnu::noinline]] static void* allocate_other(std::size_t bytes) {
    if (bytes <= Classes::kLargest) return allocate_class(Classes::class_of(bytes));
    bool zero;
    return allocate_run(bytes, kAlignment, zero);
  }

  // `zero`: whether the block is.
  [[gnu::noinline]] static void* allocate_run(std::size_t bytes, std::size_t alignment, bool& zero) {
    zero = true;
    void* block = nullptr;
    if (bytes <= kLargestRun && alignment <= kLargestRun) {
      const Visit visit = Process::enter();
      if (visit.again) return Blocks::allocate_lone(bytes, alignment);
      work_off(Process::kFew);
      block = take_run(bytes, alignment, zero);
      Parts::runs.settle();
      Process::leave(visit);
      if (block != nullptr) return block;
    }
    const auto few = [] { work_off(Process::kFew); };
    zero = true;
    block = Blocks::allocate(Parts::large, bytes, alignment <= kAlignment ? 0 : alignment, few);
    if (block != nullptr || bytes > kMostRun || alignment > kMostRun) return block;
    // The window may have room where the system gives no more; and then the other way round.
    const Visit visit = Process::enter();
    if (visit.again) return nullptr;
    block = take_run(bytes, alignment, zero);
    const bool shrunk = block == nullptr && Parts::runs.shrink();
    Process::leave(visit);
    if (!shrunk) return os::or_no_memory(block);
    zero = true;
    return Blocks::allocate(Parts::large, bytes, alignment <= kAlignment ? 0 : alignment, few);
  }
  // By a thread that is inside.
  static void* take_run(std::size_t bytes, std::size_t alignment, bool& zero) {
    PageRun* run = Parts::runs.allocate(pages_of(bytes), alignment > policy::kSmallPage ? pages_of(alignment) : 1,
                                        PageRun::kLarge);
    if (run == nullptr) return nullptr;
    zero = run->zero;
    return Parts::runs.memory_of(run);
  }

  // Of what has no class: a large block, or one of a first-class heap.
  [[gnu::noinline]] static bool resize_run(void* block, std::size_t bytes) {
    PageRun* run = run_of(block);
    if (run->owner != 0) {
      const std::size_t now = FirstClassHeaps::usable(run);
      return bytes <= now && bytes >= now / 2;
    }
    if (bytes <= Classes::kLargest || bytes > kLargestRun) return false;
    if (pages_of(bytes) == run->pages) return true;
    const Visit visit = Process::enter();
    if (visit.again) return bytes <= Parts::runs.bytes_of(run);
    const bool resized = Parts::runs.resize(run, pages_of(bytes));
    Parts::runs.settle();
    Process::leave(visit);
    return resized;
  }

  [[gnu::noinline]] static void* move_run(void* block, std::size_t bytes) {
    PageRun* run = run_of(block);
    const std::size_t now = Parts::runs.bytes_of(run);
    if (now < kMovable / 2 || bytes <= now || bytes > kLargestRun) return nullptr;
    if (moves_.load(std::memory_order_relaxed) >= kMostMoves) return nullptr;
    const Visit visit = Process::enter();
    if (visit.again) return nullptr;
    PageRun* to = Parts::runs.allocate(pages_of(bytes), pages_of(os::page_bytes()), PageRun::kLarge);
    if (to == nullptr) {
      to = Parts::runs.move(run, pages_of(bytes));
      Process::leave(visit);
      if (to == nullptr) return nullptr;
      moves_.fetch_add(1, std::memory_order_relaxed);
      return Parts::runs.memory_of(to);
    }
    void* moved = Parts::runs.memory_of(to);
    if (Parts::Pages::move_pages(block, now, moved)) {
      moves_.fetch_add(1, std::memory_order_relaxed);
      Parts::runs.free_moved(run);
    } else {
      Parts::runs.free(to);
      moved = nullptr;
    }
    Parts::runs.settle();
    Process::leave(visit);
    return moved;
  }

  [[gnu::noinline]] static void free_outside(void* block) {
    if (block != nullptr && !FirstClassHeaps::owns_lone(block)) Blocks::free(Parts::large, block);
  }

  static unsigned class_of(const void* block) { return Parts::Map::class_of(Parts::spans, block); }
  static PageRun* run_of(const void* block) { return Parts::map.run_of(Parts::map.page_of(block)); }
  static std::uint32_t pages_of(std::size_t bytes) {
    return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + policy::kSmallPage - 1) / policy::kSmallPage);
  }
  // What 32 bits of pages can count.
  static constexpr std::size_t kMostRun = std::size_t{1} << 40;

  // Frees blocks that were put aside, past the thread's front end, which may be in the middle of a refill.
  static void work_off(unsigned most) {
    Process::work_off(most, [](void* block) {
      if (Parts::spans.contains(block))
        release_inside(Process::kWithoutFrontEnd, class_of(block), block);
      else if (!FirstClassHeaps::owns_lone(block))
        Blocks::free_inside(Parts::large, block);
    });
  }

  static inline constinit std::atomic<std::size_t> moves_{0};
};

}  // namespace heapyard
