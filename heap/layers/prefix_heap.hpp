// SPDX-License-Identifier: Apache-2.0
// A heap whose blocks carry, in the word before them, what they are; the storey below a composition.
//
// Idea: BFM (paper, sections 2.1 and 2.2). The word is the address of a page record for a small block, and zero for a
// range or a mapping of its own. This file joins front end, spans and ranges.
// Cost: that of the front end for small blocks; of the ranges for others. Errors: null with errno ENOMEM, or false,
// when memory is out. Sampled front ends: layers/frontend/sampling.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/process.hpp"
#include "heap/layers/range_blocks.hpp"
#include "heap/layers/spans/page_record.hpp"
#include "heap/os/no_memory.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `ranges`, `spans`, `front` and types Steps, Front, Pages, Samples.
template <class Parts>
class PrefixHeap {
  using Steps = typename Parts::Steps;
  using Front = typename Parts::Front;
  using Samples = typename Parts::Samples;
  using Visit = typename Front::Visit;

  struct Layers {
    using Front = typename Parts::Front;
    static Front& front() { return Parts::front; }
    static void start() {}
  };
  using Process = heapyard::Process<Layers>;
  using Blocks = RangeBlocks<Process, typename Parts::Ranges, typename Parts::Pages, Samples>;

 public:
  static constexpr bool kSampled = Front::kSampled;

  // The hot path: a table, the thread's stack, done.
  static void* allocate(std::size_t bytes) {
    if (bytes <= Steps::kLargest) [[likely]] {
      const unsigned size_class = Steps::class_of(bytes);
      void* block = Parts::front.allocate(size_class);
      return block != nullptr ? block : refill(size_class, Front::kSampled ? bytes : 0);
    }
    return allocate_range(bytes, 0);
  }

  static void free(void* block) {
    if (block == nullptr) [[unlikely]]
      return;
    const std::uint64_t prefix = PageRecord::prefix_of(block);
    if (prefix != 0) [[likely]] {
      const unsigned size_class = PageRecord::class_of(prefix);
      if (!Parts::front.free(size_class, block)) [[unlikely]]
        flush(size_class, block);
      return;
    }
    free_range(block);
  }

  // `alignment`: a power of two.
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (alignment <= kAlignment) return allocate(bytes);
    return allocate_range(bytes, alignment);
  }

  static void* allocate_zeroed(std::size_t bytes) {
    void* block = allocate(bytes);
    return block == nullptr ? nullptr : Blocks::zero(block, bytes);
  }

  // Whether the block now serves `bytes` where it is. O(log N) for ranges.
  static bool resize(void* block, std::size_t bytes) {
    if (PageRecord::prefix_of(block) == 0) return Blocks::resize(Parts::ranges, block, bytes, Steps::kLargest);
    const std::size_t now = usable(block);
    return bytes <= now && bytes >= now / 2;
  }

  // Grows a large block by moving its pages; null: only a copy grows it.
  static void* move(void* block, std::size_t bytes) {
    return PageRecord::prefix_of(block) == 0 ? Blocks::move(Parts::ranges, block, bytes) : nullptr;
  }

  static std::size_t usable(const void* block) {
    const std::uint64_t prefix = PageRecord::prefix_of(block);
    return prefix != 0 ? Steps::bytes_of(PageRecord::class_of(prefix)) : Blocks::usable(Parts::ranges, block);
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // Whether free memory was offered to the system. O(N) system calls for N free ranges.
  static bool trim() {
    const Visit visit = Process::enter_patiently();
    if (visit.again) return false;
    work_off(Process::kAll);
    Parts::ranges.trim();
    Samples::trim();
    Process::leave(visit);
    return true;
  }

  // O(page records + threads). All zero where a thread may not enter.
  static HeapUsage usage() {
    const Visit visit = Process::enter_patiently();
    if (visit.again) return {};
    work_off(Process::kAll);
    const HeapUsage ranges = Parts::ranges.usage();
    const HeapUsage samples = Samples::usage();
    const std::size_t free = ranges.free + samples.free + Parts::spans.free_bytes() + Parts::front.free_bytes();
    Process::leave(visit);
    return {ranges.mapped + samples.mapped, free};
  }

 private:
  static constexpr std::size_t kAlignment = 16;

  // `bytes`: asked for; of use where the front end is sampled.
  [[gnu::noinline]] static void* refill(unsigned size_class, [[maybe_unused]] std::size_t bytes) {
    const Visit visit = Process::enter();
    if (visit.again) return Blocks::allocate_lone(Steps::bytes_of(size_class), kAlignment);
    work_off();
    void* block = nullptr;
    if constexpr (Front::kSampled) {
      const std::size_t counted = Steps::bytes_of(size_class);
      if (const std::uint32_t log2_interval = Parts::front.due(visit, size_class, counted)) [[unlikely]]
        block = Samples::allocate(bytes, counted, kAlignment, log2_interval);
    }
    if (block == nullptr) [[likely]]
      block = Parts::front.refill(visit, size_class);
    Process::leave(visit);
    return os::or_no_memory(block);
  }

  [[gnu::noinline]] static void flush(unsigned size_class, void* block) {
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off();
    Parts::front.flush(visit, size_class, block);
    Process::leave(visit);
  }

  // `alignment`: 0 for what every range has.
  [[gnu::noinline]] static void* allocate_range(std::size_t bytes, std::size_t alignment) {
    return Blocks::allocate(Parts::ranges, bytes, alignment, [](const Visit&) { work_off(); });
  }

  [[gnu::noinline]] static void free_range(void* block) { Blocks::free(Parts::ranges, block); }

  static void work_off(unsigned most = Process::kFew) {
    Process::work_off(most, [](void* block) {
      if (PageRecord::prefix_of(block) != 0)
        Parts::spans.free(&block, 1);
      else
        Blocks::free_inside(Parts::ranges, block);
    });
  }
};

}  // namespace heapyard
