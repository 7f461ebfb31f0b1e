// A heap whose blocks find their span by masking their address; the storey below a composition.
//
// Idea: what lies in one reservation is in a span of it, whose header says what it holds (scalloc, OOPSLA 2015,
// section 3; elfmalloc's slabs); what does not is a mapping of its own. This file joins map, front end, pool and
// reservation. Cost: that of the front end up to the largest class; a system call each way beyond. Errors: null with
// errno ENOMEM, or false, when memory is out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/process.hpp"
#include "heap/os/no_memory.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `spans`, `pool`, `front` and types Front, Map, Pages.
template <class Parts>
class MaskHeap {
  using Map = typename Parts::Map;
  using Span = typename Map::Span;
  using Classes = typename Map::Classes;
  using Front = typename Parts::Front;
  using Entry = typename Front::Entry;
  using Visit = typename Front::Visit;
  using Lone = LoneMapping<typename Parts::Pages>;

  struct Layers {
    using Front = typename Parts::Front;
    static Front& front() { return Parts::front; }
    static void start() { Parts::spans.reserve(); }
    static void fork_prepare() { Parts::front.fork_prepare(); }
    static void fork_parent() { Parts::front.fork_parent(); }
    static void fork_child(typename Front::Thread* own) { Parts::front.fork_child(own); }
  };
  using Process = heapyard::Process<Layers>;

 public:
  // The hot path: the class, the thread's front end, done.
  static void* allocate(std::size_t bytes) {
    return Classes::is_small(bytes) ? allocate_class(Classes::small_class_of(bytes)) : allocate_other(bytes);
  }

  static void free(void* block) {
    if (!Parts::spans.contains(block)) [[unlikely]]
      return free_lone(block);
    Span* span = Map::of(block);
    if (!Parts::front.free(span, block)) release(span, block);
  }

  // `alignment`: a power of two.
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (alignment <= kAlignment) return allocate(bytes < alignment ? alignment : bytes);
    if (bytes > kMost || alignment > kMost) return os::or_no_memory(nullptr);
    const std::size_t ask = Map::bytes_to_align(bytes, alignment);
    if (ask <= Classes::kLargest) {
      void* block = allocate(ask);
      if (block == nullptr) return nullptr;
      if (Parts::spans.contains(block)) return Map::align(block, alignment);
      Lone::free(block);  // the thread was inside already
    }
    return os::or_no_memory(Lone::allocate(bytes, alignment));
  }

  static void* allocate_zeroed(std::size_t bytes) {
    void* block = allocate(bytes);
    if (block == nullptr || !Parts::spans.contains(block)) return block;  // a mapping is zero
    return std::memset(block, 0, bytes);
  }

  static bool resize(void* block, std::size_t bytes) {
    const std::size_t now = usable(block);
    return bytes <= now && bytes >= now / 2;
  }

  static std::size_t usable(const void* block) {
    return Parts::spans.contains(block) ? Map::usable(block) : Lone::usable(block);
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // Whether free memory was offered to the system.
  static bool trim() {
    const Visit visit = Process::enter();
    if (visit.again) return false;
    Parts::pool.trim();
    Entry::leave(visit);
    return true;
  }

  // Of what lies in the reservation; mappings of single blocks are not counted.
  static HeapUsage usage() { return Map::usage(Parts::spans); }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kMost = PTRDIFF_MAX / 2;

  static void* allocate_class(unsigned c) {
    void* block = Parts::front.allocate(c);
    return block != nullptr ? block : refill(c);
  }

  [[gnu::noinline]] static void* refill(unsigned c) {
    const Visit visit = Process::enter();
    if (visit.again) return os::or_no_memory(Lone::allocate(Classes::bytes_of(c), kAlignment));
    work_off(visit);
    void* block = Parts::front.refill(visit, c);
    Entry::leave(visit);
    return os::or_no_memory(block);
  }

  [[gnu::noinline]] static void release(Span* span, void* block) {
    block = Map::start_of(span, block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off(visit);
    Parts::front.release(visit, span, block);
    Entry::leave(visit);
  }

  [[gnu::noinline]] static void* allocate_other(std::size_t bytes) {
    if (bytes <= Classes::kLargest) return allocate_class(Classes::class_of(bytes));
    return os::or_no_memory(bytes > kMost ? nullptr : Lone::allocate(bytes, kAlignment));
  }

  [[gnu::noinline]] static void free_lone(void* block) {
    if (block != nullptr) Lone::free(block);
  }

  static void work_off(const Visit& visit) {
    Process::work_off([&](void* block) { Parts::front.release(visit, Map::of(block), block); });
  }
};

}  // namespace heapyard
