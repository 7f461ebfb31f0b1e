// A heap whose blocks carry, in the word before them, what they are; the storey below a composition.
//
// Idea: BFM (paper, sections 2.1 and 2.2). The word is a page record's address for a small block, zero for a range
// or a mapping of its own. This file joins front end, spans and ranges.
// Cost: that of the front end for small blocks; of the ranges for others. Errors: null with errno ENOMEM,
// or false, when memory is out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/process.hpp"
#include "heap/layers/spans/page_record.hpp"
#include "heap/os/no_memory.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `ranges`, `spans`, `front` and types Steps, Front, Pages.
template <class Parts>
class PrefixHeap {
  using Steps = typename Parts::Steps;
  using Front = typename Parts::Front;
  using Entry = typename Front::Entry;
  using Visit = typename Front::Visit;
  using Lone = LoneMapping<typename Parts::Pages>;

  struct Layers {
    using Front = typename Parts::Front;
    static Front& front() { return Parts::front; }
    static void start() {}
    static void fork_prepare() {
      Parts::spans.fork_prepare();
      Parts::ranges.fork_prepare();
    }
    static void fork_parent() {
      Parts::ranges.fork_parent();
      Parts::spans.fork_parent();
    }
    static void fork_child(typename Front::Thread*) {
      Parts::ranges.fork_child();
      Parts::spans.fork_child();
    }
  };
  using Process = heapyard::Process<Layers>;

 public:
  // The hot path: a table, the thread's stack, done.
  static void* allocate(std::size_t bytes) {
    if (bytes <= Steps::kLargest) [[likely]] {
      const unsigned size_class = Steps::class_of(bytes);
      void* block = Parts::front.allocate(size_class);
      return block != nullptr ? block : refill(size_class);
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
    if (block == nullptr) return nullptr;
    if (bytes < kZeroedBySystem) return std::memset(block, 0, bytes);
    const std::size_t page = os::page_bytes();
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + bytes;
    const std::uintptr_t first = os::round_up(start, page), last = end & ~(page - 1);
    if (!Parts::Pages::decommit(block, bytes)) return std::memset(block, 0, bytes);
    std::memset(block, 0, first - start);
    std::memset(reinterpret_cast<void*>(last), 0, end - last);
    return block;
  }

  // Whether the block now serves `bytes` where it is. O(log N) for ranges.
  static bool resize(void* block, std::size_t bytes) {
    const std::size_t now = usable(block);
    if (PageRecord::prefix_of(block) != 0 || Lone::owns(block)) return bytes <= now && bytes >= now / 2;
    if (bytes > kMost || (bytes <= Steps::kLargest && now > 2 * Steps::kLargest)) return false;
    const Visit visit = Process::enter();
    if (visit.again) return bytes <= now;
    const bool resized = Parts::ranges.resize(block, bytes);
    Entry::leave(visit);
    return resized;
  }

  static std::size_t usable(const void* block) {
    if (const std::uint64_t prefix = PageRecord::prefix_of(block); prefix != 0) {
      return Steps::bytes_of(PageRecord::class_of(prefix));
    }
    return Lone::owns(block) ? Lone::usable(block) : Parts::ranges.usable(block);
  }

  // From here on forks are safe; the library calls it when it is loaded.
  static void begin() { Process::begin(); }

  // Whether free memory was offered to the system. O(N) system calls for N free ranges.
  static bool trim() {
    const Visit visit = Process::enter();
    if (visit.again) return false;
    Parts::ranges.trim();
    Entry::leave(visit);
    return true;
  }

  // O(page records).
  static HeapUsage usage() {
    const Visit visit = Process::enter();
    if (visit.again) return {};
    const RangeUsage ranges = Parts::ranges.usage();
    const std::size_t in_spans = Parts::spans.free_bytes();
    Entry::leave(visit);
    return {ranges.mapped, ranges.free + in_spans};
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kMost = PTRDIFF_MAX / 2;  // room for prefixes and alignment in sums
  // From here on untouched zero pages cost less than clearing: a table that stays sparse never becomes resident.
  static constexpr std::size_t kZeroedBySystem = std::size_t{1} << 20;

  [[gnu::noinline]] static void* refill(unsigned size_class) {
    const Visit visit = Process::enter();
    if (visit.again) return os::or_no_memory(Lone::allocate(Steps::bytes_of(size_class), kAlignment));
    work_off();
    void* block = Parts::front.refill(visit, size_class);
    Entry::leave(visit);
    return os::or_no_memory(block);
  }

  [[gnu::noinline]] static void flush(unsigned size_class, void* block) {
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    work_off();
    Parts::front.flush(visit, size_class, block);
    Entry::leave(visit);
  }

  // `alignment`: 0 for what every range has.
  [[gnu::noinline]] static void* allocate_range(std::size_t bytes, std::size_t alignment) {
    if (bytes > kMost || alignment > kMost) return os::or_no_memory(nullptr);
    const Visit visit = Process::enter();
    if (visit.again) return os::or_no_memory(Lone::allocate(bytes, alignment));
    work_off();
    void* block = alignment == 0 ? Parts::ranges.allocate(bytes) : Parts::ranges.allocate_aligned(bytes, alignment);
    Entry::leave(visit);
    return os::or_no_memory(block);
  }

  [[gnu::noinline]] static void free_range(void* block) {
    if (Lone::owns(block)) return Lone::free(block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    Parts::ranges.free(block);
    Entry::leave(visit);
  }

  static void work_off() {
    Process::work_off([](void* block) {
      if (PageRecord::prefix_of(block) != 0)
        Parts::spans.free(&block, 1);
      else
        Parts::ranges.free(block);
    });
  }
};

}  // namespace heapyard
