// SPDX-License-Identifier: Apache-2.0
// The shell of every heap: it joins the layers below to malloc, free and what else a composition must offer.
//
// Idea: heaps differ in their layers and in how they find out what a pointer is; the way through them is one. A request
// is served by the front end up to the largest class, and beyond it by a range of its own. Where the spans have no room
// it is packed tight, if the heap can. A classifier (concepts.hpp) tells blocks of classes from others: by the word
// before the block (spans/prefix_map.hpp), by masks (spans/virtual_span_map.hpp, spans/slab_map.hpp), or by a map of
// pages.
// Cost: up to the largest class that of the front end; beyond it that of the source of ranges. When memory is out, a
// heap that packs tight gives the address space of free spans and ranges back, O(free spans + N log N of N free
// ranges), and tries again. Threads: any. Errors: null with errno ENOMEM, or false. Sampled front ends:
// layers/frontend/sampling.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/process.hpp"
#include "heap/layers/range_blocks.hpp"
#include "heap/os/no_memory.hpp"

namespace heapyard {

// `Parts` makes the layers: statics `map`, the classifier; `pool`, what holds empty spans; `front`, `large`, `tight`;
// and types Map, Front, Large, Outside (pages for what has no class), Samples.
template <HeapParts Parts>
class HeapShell {
  using Map = typename Parts::Map;
  using Holder = typename Map::Holder;
  using Classes = typename Map::Classes;
  using Front = typename Parts::Front;
  using Thread = typename Front::Thread;
  using Visit = typename Front::Visit;
  using Large = typename Parts::Large;
  using Samples = typename Parts::Samples;

  struct Layers {
    using Front = typename Parts::Front;
    static Front& front() { return Parts::front; }
    static void start() { Parts::map.reserve(); }
  };
  using Process = heapyard::Process<Layers>;
  using Blocks = RangeBlocks<Process, Large, typename Parts::Outside, Samples>;
  using Lone = typename Blocks::Lone;

 public:
  static constexpr bool kSampled = Samples::kSampled;

  // The hot path: the class, the thread's front end, done.
  static void* allocate(std::size_t bytes) {
    return Classes::is_small(bytes) ? allocate_class(Classes::small_class_of(bytes), bytes) : allocate_other(bytes);
  }

  static void free(void* block) {
    if constexpr (!Map::kTellsNull) {
      if (block == nullptr) [[unlikely]]
        return;
    }
    if (!Parts::map.owns(block)) [[unlikely]]
      return free_other(block);
    const Holder holder = Parts::map.holder_of(block);
    if (!Parts::front.free(holder, block)) [[unlikely]]
      release(holder, block);
  }

  // `alignment`: a power of two.
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (alignment <= kAlignment) return allocate(Map::kAligned || bytes >= alignment ? bytes : alignment);
    if constexpr (Map::kAligns) {
      if (bytes <= Classes::kLargest && alignment <= Classes::kLargest) {
        const std::size_t ask = Parts::map.bytes_to_align(bytes, alignment);
        if (ask <= Classes::kLargest) {
          void* block = allocate_class(Classes::class_of(ask), bytes, alignment);
          // Else it is null, or was aligned by whoever made it.
          return Parts::map.owns(block) ? Parts::map.align(block, alignment) : block;
        }
      }
    }
    return allocate_large(bytes, alignment);
  }

  static void* allocate_zeroed(std::size_t bytes) {
    void* block = allocate(bytes);
    return block == nullptr || known_zero(block) ? block : Blocks::zero(block, bytes);
  }

  // Whether the block now serves `bytes` where it is.
  static bool resize(void* block, std::size_t bytes) {
    if (!Parts::map.owns(block)) {
      if (Parts::tight.owns(block)) return Parts::tight.resize(block, bytes);
      return Blocks::resize(Parts::large, block, bytes, Classes::kLargest);
    }
    const std::size_t now = Parts::map.usable(block);
    return bytes <= now && bytes >= now / 2;
  }

  // Grows a large block by moving its pages; null: only a copy grows it.
  static void* move(void* block, std::size_t bytes) {
    if (Parts::map.owns(block) || Parts::tight.owns(block)) return nullptr;
    return Blocks::move(Parts::large, block, bytes);
  }

  static std::size_t usable(const void* block) {
    if (Parts::map.owns(block)) return Parts::map.usable(block);
    return Parts::tight.owns(block) ? Parts::tight.usable(block) : Blocks::usable(Parts::large, block);
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // Whether free memory was offered to the system.
  static bool trim() {
    const Visit visit = Process::enter_patiently();
    if (visit.again) return false;
    work_off(Process::kAll);
    release_idle(visit.thread, 0);
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
    work_off(Process::kAll);
    const HeapUsage spans = Parts::map.usage(Parts::pool), large = Parts::large.usage(), samples = Samples::usage();
    const std::size_t free =
        spans.free + large.free + samples.free + Parts::tight.free_bytes() + Parts::front.free_bytes();
    Process::leave(visit);
    return {spans.mapped + large.mapped + samples.mapped, free};
  }

 private:
  static constexpr std::size_t kAlignment = 16;

  // Whether a block that was just allocated is all zero, as a mapping of its own is.
  static bool known_zero(const void* block) {
    if constexpr (!Large::kMapsEach) return false;
    return !Parts::map.owns(block) && !Parts::tight.owns(block) && Lone::owns(block);
  }

  static void* allocate_class(unsigned c, std::size_t bytes, std::size_t alignment = kAlignment) {
    void* block = Parts::front.allocate(c);
    return block != nullptr ? block : refill(c, kAsksBytes ? bytes : 0, alignment);
  }
  static constexpr bool kAsksBytes = Samples::kSampled || Parts::Tight::kPacks;  // the slow path must know them

  // `bytes`: asked for. A block of no span is aligned.
  [[gnu::noinline]] static void* refill(unsigned c, [[maybe_unused]] std::size_t bytes, std::size_t at) {
    const std::size_t alignment = Map::kAligns ? at : kAlignment;  // so the slow path of BFM has one argument
    const Visit visit = Process::enter();
    if (visit.again) return Blocks::allocate_lone(Classes::bytes_of(c), alignment);
    work_off(Process::kFew);
    if constexpr (Parts::Tight::kPacks) {
      if (Parts::spans.in_group()) [[unlikely]]
        Parts::pool.expect_waste(c, bytes < Classes::bytes_of(c) / 4 * 3);
    }
    void* block = nullptr;
    if constexpr (Samples::kSampled) {
      const std::size_t counted = Classes::bytes_of(c);
      if (const std::uint32_t log2_interval = Parts::front.due(c, counted)) [[unlikely]]
        block = Samples::allocate(bytes, counted, alignment, log2_interval);
    }
    if (block == nullptr) [[likely]]
      block = Parts::front.refill(visit, c);
    if constexpr (Parts::Tight::kPacks) {
      if (Parts::spans.took_from_group()) [[unlikely]]
        shrink_ranges();
      if (block == nullptr) [[unlikely]]
        block = pack_tight(visit.thread, bytes, alignment);
    }
    Process::leave(visit);
    return os::or_no_memory(block);
  }

  // For a thread that is inside.
  [[gnu::noinline, gnu::cold]] static void* pack_tight(Thread* thread, std::size_t bytes, std::size_t alignment) {
    if (Parts::spans.in_group()) give_idle_back(thread);
    void* block = Parts::tight.allocate(bytes, alignment);
    if (block != nullptr || !shrink(thread)) return block;
    return Parts::tight.allocate(bytes, alignment);
  }

  // Of front ends that keep objects, or empty spans.
  static void release_idle([[maybe_unused]] Thread* thread, [[maybe_unused]] std::size_t few) {
    if constexpr (requires { Parts::front.release_idle(thread, few); }) Parts::front.release_idle(thread, few);
  }

  // Where a control group would kill: memory that lies idle. O(1) while little does.
  static void give_idle_back(Thread* thread) {
    release_idle(thread, Parts::spans.few());
    Parts::pool.trim(true);
    shrink_ranges();
  }
  static void shrink_ranges() {
    if (Parts::large.usage().free > Parts::spans.few()) Parts::large.shrink();
  }

  // Gives back the address space of what is free; whether there may be more of it now.
  static bool shrink(Thread* thread) {
    release_idle(thread, 0);
    Parts::pool.trim(true);
    return Parts::large.shrink();
  }

  [[gnu::noinline]] static void release(Holder holder, void* block) {
    if constexpr (Map::kAligns) block = Parts::map.start_of(holder, block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off(Process::kFew);
    Parts::front.release(visit, holder, block);
    Process::leave(visit);
  }

  // What is not small.
  static void* allocate_other(std::size_t bytes) {
    if constexpr (Classes::is_small(Classes::kLargest)) return allocate_large(bytes, 0);
    return allocate_medium(bytes);
  }

  [[gnu::noinline]] static void* allocate_medium(std::size_t bytes) {
    if (Classes::is_small(bytes)) __builtin_unreachable();  // spares a test of what the caller has tested
    if (bytes <= Classes::kLargest) return allocate_class(Classes::class_of(bytes), bytes);
    return allocate_large(bytes, 0);
  }

  // `alignment`: 0 for what every range has.
  [[gnu::noinline]] static void* allocate_large(std::size_t bytes, std::size_t alignment) {
    if constexpr (Parts::Tight::kPacks) {
      if (Parts::spans.in_group()) [[unlikely]]
        return allocate_large_after(give_idle_back, bytes, alignment);
    }
    void* block = Blocks::allocate(Parts::large, bytes, alignment, [] { work_off(Process::kFew); });
    if (!Parts::Tight::kPacks || block != nullptr || bytes > Blocks::kMost) [[likely]]
      return block;
    return allocate_large_after(shrink, bytes, alignment);
  }
  template <class Work>
  [[gnu::noinline, gnu::cold]] static void* allocate_large_after(Work work, std::size_t bytes, std::size_t alignment) {
    const Visit visit = Process::enter();
    if (!visit.again) {
      work(visit.thread);
      Process::leave(visit);
    }
    return Blocks::allocate(Parts::large, bytes, alignment, [] { work_off(Process::kFew); });
  }

  [[gnu::noinline]] static void free_other(void* block) {
    if constexpr (Map::kTellsNull) {
      if (block == nullptr) return;
    }
    if (!Parts::tight.owns(block)) [[likely]]
      return Blocks::free(Parts::large, block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    Parts::tight.free(block);
    Process::leave(visit);
  }

  // Frees blocks that were put aside. They go past the thread's front end, which may be in the middle of a refill.
  static void work_off(unsigned most) {
    Process::work_off(most, [](void* block) {
      if (Parts::map.owns(block))
        Parts::front.release(Process::kWithoutFrontEnd, Parts::map.holder_of(block), block);
      else if (Parts::tight.owns(block))
        Parts::tight.free(block);
      else
        Blocks::free_inside(Parts::large, block);
    });
  }
};

}  // namespace heapyard
