// A heap whose blocks find their span by masking their address; the storey below a composition.
//
// Idea: what lies in one reservation is in a span of it, whose header says what it holds (scalloc, OOPSLA 2015,
// section 3; elfmalloc's slabs); what does not is a range of its own. This file joins map, front end, pool,
// reservation and the source of large ranges. Cost: that of the front end up to the largest class; of that source
// beyond. Errors: null with
// errno ENOMEM, or false, when memory is out. A front end that is sampled: see layers/frontend/sampling.hpp.
#pragma once

#include <cstddef>

#include "heap/layers/heap_usage.hpp"
#include "heap/layers/process.hpp"
#include "heap/layers/range_blocks.hpp"
#include "heap/os/no_memory.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `spans`, `pool`, `front`, `large` and types Front, Map, Large,
// Pages, Samples.
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
    static void fork_prepare() {
      Parts::front.fork_prepare();
      Parts::large.fork_prepare();
      Samples::fork_prepare();
    }
    static void fork_parent() {
      Samples::fork_parent();
      Parts::large.fork_parent();
      Parts::front.fork_parent();
    }
    static void fork_child(typename Front::Thread* own) {
      Samples::fork_child();
      Parts::large.fork_child();
      Parts::front.fork_child(own);
    }
  };
  using Process = heapyard::Process<Layers>;
  using Blocks = RangeBlocks<Process, Large, typename Parts::Pages, Samples>;
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
    const bool zero = !Parts::spans.contains(block) && (Lone::owns(block) || (Large::kZeroed && !Samples::kSampled));
    return zero ? block : Blocks::zero(block, bytes);
  }

  static bool resize(void* block, std::size_t bytes) {
    if (!Parts::spans.contains(block)) return Blocks::resize(Parts::large, block, bytes, Classes::kLargest);
    const std::size_t now = Map::usable(block);
    return bytes <= now && bytes >= now / 2;
  }

  static std::size_t usable(const void* block) {
    return Parts::spans.contains(block) ? Map::usable(block) : Blocks::usable(Parts::large, block);
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // Whether free memory was offered to the system.
  static bool trim() {
    const Visit visit = Process::enter();
    if (visit.again) return false;
    Parts::pool.trim();
    Parts::large.trim();
    Samples::trim();
    Process::leave(visit);
    return true;
  }

  // Mappings of single blocks are not counted.
  static HeapUsage usage() {
    const auto large = Parts::large.usage();
    const HeapUsage samples = Samples::usage();
    HeapUsage sum = Map::usage(Parts::spans);
    sum.mapped += large.mapped + samples.mapped;
    sum.free += large.free + samples.free;
    return sum;
  }

 private:
  static constexpr std::size_t kAlignment = 16;

  static void* allocate_class(unsigned c, std::size_t bytes, std::size_t alignment = kAlignment) {
    void* block = Parts::front.allocate(c);
    return block != nullptr ? block : refill(c, Front::kSampled ? bytes : 0, alignment);
  }

  // `bytes`: asked for; of use where the front end is sampled. A block of no span is aligned.
  [[gnu::noinline]] static void* refill(unsigned c, [[maybe_unused]] std::size_t bytes, std::size_t alignment) {
    const Visit visit = Process::enter();
    if (visit.again) return os::or_no_memory(Lone::allocate(Classes::bytes_of(c), alignment));
    work_off(visit);
    void* block = nullptr;
    if constexpr (Front::kSampled) {
      const std::size_t counted = Classes::bytes_of(c);
      if (const std::uint32_t log2_interval = Parts::front.due(visit, c, counted)) [[unlikely]]
        block = Samples::allocate(bytes, counted, alignment, log2_interval);
    }
    if (block == nullptr) [[likely]]
      block = Parts::front.refill(visit, c);
    Process::leave(visit);
    return os::or_no_memory(block);
  }

  [[gnu::noinline]] static void release(Span* span, void* block) {
    block = Map::start_of(span, block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off(visit);
    Parts::front.release(visit, span, block);
    Process::leave(visit);
  }

  [[gnu::noinline]] static void* allocate_other(std::size_t bytes) {
    if (bytes <= Classes::kLargest) return allocate_class(Classes::class_of(bytes), bytes);
    return allocate_large(bytes, 0);
  }

  // `alignment`: 0 for what every range has.
  [[gnu::noinline]] static void* allocate_large(std::size_t bytes, std::size_t alignment) {
    return Blocks::allocate(Parts::large, bytes, alignment, work_off);
  }

  [[gnu::noinline]] static void free_large(void* block) {
    if (block != nullptr) Blocks::free(Parts::large, block);
  }

  static void work_off(const Visit& visit) {
    Process::work_off([&](void* block) {
      if (Parts::spans.contains(block))
        Parts::front.release(visit, Map::of(block), block);
      else
        Blocks::free_inside(Parts::large, block);
    });
  }
};

}  // namespace heapyard
