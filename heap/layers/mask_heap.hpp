// SPDX-License-Identifier: Apache-2.0
// A heap whose blocks find their span by masking their address; the storey below a composition.
//
// Idea: an address in the reservation lies in a span, whose header says what the span holds (scalloc, OOPSLA 2015,
// section 3; elfmalloc's slabs). A block outside of it is a range of its own, or packed tight where no span could be
// had. This file joins map, front end, pool, window, tight blocks and the source of large ranges.
// Cost: up to the largest class that of the front end; beyond it that of the source of ranges. When memory is out, free
// spans and ranges give their address space back, O(free spans + N log N of N free ranges), and the heap tries again.
// Errors: null with errno ENOMEM, or false. Sampled front ends: layers/frontend/sampling.hpp.
#pragma once

#include <cstddef>

#include "heap/layers/heap_usage.hpp"
#include "heap/layers/process.hpp"
#include "heap/layers/range_blocks.hpp"
#include "heap/os/no_memory.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `spans`, `pool`, `front`, `large`, `tight` and types Front, Map, Large,
// Outside (pages for what is no span), Samples.
template <class Parts>
class MaskHeap {
  using Map = typename Parts::Map;
  using Span = typename Map::Span;
  using Classes = typename Map::Classes;
  using Front = typename Parts::Front;
  using Visit = typename Front::Visit;
  using Large = typename Parts::Large;
  using Samples = typename Parts::Samples;

  struct Layers {
    using Front = typename Parts::Front;
    static Front& front() { return Parts::front; }
    static void start() { Parts::spans.reserve(); }
  };
  using Process = heapyard::Process<Layers>;
  using Blocks = RangeBlocks<Process, Large, typename Parts::Outside, Samples>;
  using Lone = typename Blocks::Lone;

 public:
  static constexpr bool kSampled = Front::kSampled;

  // The hot path: the class, the thread's front end, done.
  static void* allocate(std::size_t bytes) {
    return Classes::is_small(bytes) ? allocate_class(Classes::small_class_of(bytes), bytes) : allocate_other(bytes);
  }

  static void free(void* block) {
    if (!Parts::spans.contains(block)) [[unlikely]]
      return free_large(block);
    Span* span = Map::of(block);
    if (!Parts::front.free(span, block)) release(span, block);
  }

  // `alignment`: a power of two.
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (alignment <= kAlignment) return allocate(bytes < alignment ? alignment : bytes);
    if (bytes <= Classes::kLargest && alignment <= Classes::kLargest) {
      const std::size_t ask = Map::bytes_to_align(bytes, alignment);
      if (ask <= Classes::kLargest) {
        void* block = allocate_class(Classes::class_of(ask), bytes, alignment);
        // Else it is null, or was aligned by whoever made it.
        return Parts::spans.contains(block) ? Map::align(block, alignment) : block;
      }
    }
    return allocate_large(bytes, alignment);
  }

  static void* allocate_zeroed(std::size_t bytes) {
    void* block = allocate(bytes);
    if (block == nullptr) return nullptr;
    const bool zero = !Parts::spans.contains(block) && !Parts::tight.owns(block) && Lone::owns(block);
    return zero ? block : Blocks::zero(block, bytes);
  }

  static bool resize(void* block, std::size_t bytes) {
    if (!Parts::spans.contains(block) && Parts::tight.owns(block)) return Parts::tight.resize(block, bytes);
    if (!Parts::spans.contains(block)) return Blocks::resize(Parts::large, block, bytes, Classes::kLargest);
    const std::size_t now = Map::usable(block);
    return bytes <= now && bytes >= now / 2;
  }

  // Grows a large block by moving its pages; null: only a copy grows it.
  static void* move(void* block, std::size_t bytes) {
    if (Parts::spans.contains(block) || Parts::tight.owns(block)) return nullptr;
    return Blocks::move(Parts::large, block, bytes);
  }

  static std::size_t usable(const void* block) {
    if (Parts::spans.contains(block)) return Map::usable(block);
    return Parts::tight.owns(block) ? Parts::tight.usable(block) : Blocks::usable(Parts::large, block);
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // Whether free memory was offered to the system.
  static bool trim() {
    const Visit visit = Process::enter_patiently();
    if (visit.again) return false;
    work_off(visit, Process::kAll);
    Parts::pool.trim(false);
    Parts::large.trim();
    Samples::trim();
    Process::leave(visit);
    return true;
  }

  // Mappings of single blocks are not counted. O(spans + threads). All zero where a thread may not enter.
  static HeapUsage usage() {
    const Visit visit = Process::enter_patiently();
    if (visit.again) return {};
    work_off(visit, Process::kAll);
    const HeapUsage spans = Map::usage(Parts::pool), large = Parts::large.usage(), samples = Samples::usage();
    const std::size_t free =
        spans.free + large.free + samples.free + Parts::tight.free_bytes() + Parts::front.free_bytes();
    Process::leave(visit);
    return {spans.mapped + large.mapped + samples.mapped, free};
  }

 private:
  static constexpr std::size_t kAlignment = 16;

  static void* allocate_class(unsigned c, std::size_t bytes, std::size_t alignment = kAlignment) {
    void* block = Parts::front.allocate(c);
    return block != nullptr ? block : refill(c, bytes, alignment);
  }

  // `bytes`: asked for. A block of no span is aligned.
  [[gnu::noinline]] static void* refill(unsigned c, std::size_t bytes, std::size_t alignment) {
    const Visit visit = Process::enter();
    if (visit.again) return Blocks::allocate_lone(Classes::bytes_of(c), alignment);
    work_off(visit, Process::kFew);
    void* block = nullptr;
    if constexpr (Front::kSampled) {
      const std::size_t counted = Classes::bytes_of(c);
      if (const std::uint32_t log2_interval = Parts::front.due(visit, c, counted)) [[unlikely]]
        block = Samples::allocate(bytes, counted, alignment, log2_interval);
    }
    if (block == nullptr && visit.thread != nullptr) [[likely]]
      block = Parts::front.refill(visit, c);
    if (block == nullptr) [[unlikely]]
      block = pack_tight(bytes, alignment);
    Process::leave(visit);
    return os::or_no_memory(block);
  }

  // For a thread that is inside.
  [[gnu::noinline, gnu::cold]] static void* pack_tight(std::size_t bytes, std::size_t alignment) {
    void* block = Parts::tight.allocate(bytes, alignment);
    if (block != nullptr || !shrink()) return block;
    return Parts::tight.allocate(bytes, alignment);
  }

  // Gives back the address space of what is free; whether there may be more of it now.
  static bool shrink() {
    Parts::pool.trim(true);
    return Parts::large.shrink();
  }

  [[gnu::noinline]] static void release(Span* span, void* block) {
    block = Map::start_of(span, block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off(visit, Process::kFew);
    Parts::front.release(visit, span, block);
    Process::leave(visit);
  }

  [[gnu::noinline]] static void* allocate_other(std::size_t bytes) {
    if (bytes <= Classes::kLargest) return allocate_class(Classes::class_of(bytes), bytes);
    return allocate_large(bytes, 0);
  }

  // `alignment`: 0 for what every range has.
  [[gnu::noinline]] static void* allocate_large(std::size_t bytes, std::size_t alignment) {
    const auto few = [](const Visit& visit) { work_off(visit, Process::kFew); };
    void* block = Blocks::allocate(Parts::large, bytes, alignment, few);
    if (block != nullptr || bytes > Blocks::kMost) [[likely]]
      return block;
    const Visit visit = Process::enter();
    if (visit.again) return nullptr;
    shrink();
    Process::leave(visit);
    return Blocks::allocate(Parts::large, bytes, alignment, few);
  }

  [[gnu::noinline]] static void free_large(void* block) {
    if (block == nullptr) return;
    if (!Parts::tight.owns(block)) [[likely]]
      return Blocks::free(Parts::large, block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    Parts::tight.free(block);
    Process::leave(visit);
  }

  static void work_off(const Visit& visit, unsigned most) {
    Process::work_off(most, [&](void* block) {
      if (Parts::spans.contains(block))
        Parts::front.release(visit, Map::of(block), block);
      else if (Parts::tight.owns(block))
        Parts::tight.free(block);
      else
        Blocks::free_inside(Parts::large, block);
    });
  }
};

}  // namespace heapyard
