// A heap whose blocks carry, in the word before them, what they are; the storey below a composition.
//
// Idea: BFM (paper, sections 2.1 and 2.2). The word is a page record's address for a small block, zero for a range
// or a mapping of its own. This file joins front end, spans and ranges, and owns what is one per process: the exit
// hook, the fork handlers, and what was put aside by threads that were inside already (layers/frontend/entry.hpp).
// Cost: that of the front end for small blocks; of the ranges for others. Errors: null or false when memory is out.
//
// Fork: the handlers hold every lock from prepare to parent; other libraries' handlers may allocate meanwhile, they
// count as inside. Blocks in caches of threads that the child has not are lost to the child: at most a cache per
// thread of the parent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/core/free_stack.hpp"
#include "heap/layers/backend/best_fit_tree.hpp"
#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/spans/page_record.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

struct HeapUsage {
  std::size_t mapped;  // bytes mapped from the system
  std::size_t free;    // of these, bytes no block of the program occupies; those in caches count as occupied
};

// `Parts` makes the layers: constinit statics `ranges`, `spans`, `front` and types Steps, Front, Pages.
template <class Parts>
class PrefixHeap {
  using Steps = typename Parts::Steps;
  using Front = typename Parts::Front;
  using Entry = typename Front::Entry;
  using Visit = typename Front::Visit;
  using Lone = LoneMapping<typename Parts::Pages>;

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
    const Visit visit = enter();
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

  // Whether free memory was offered to the system. O(N) system calls for N free ranges.
  static bool trim() {
    const Visit visit = enter();
    if (visit.again) return false;
    Parts::ranges.trim();
    Entry::leave(visit);
    return true;
  }

  // O(page records).
  static HeapUsage usage() {
    const Visit visit = enter();
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
  static constexpr unsigned kWorkOff = 8;  // blocks put aside, freed per slow path

  [[gnu::noinline]] static void* refill(unsigned size_class) {
    const Visit visit = enter();
    if (visit.again) return Lone::allocate(Steps::bytes_of(size_class), kAlignment);
    work_off();
    void* block = Parts::front.refill(visit, size_class);
    Entry::leave(visit);
    return block;
  }

  [[gnu::noinline]] static void flush(unsigned size_class, void* block) {
    const Visit visit = enter();
    if (visit.again) return aside_.push(block);
    work_off();
    Parts::front.flush(visit, size_class, block);
    Entry::leave(visit);
  }

  // `alignment`: 0 for what every range has.
  [[gnu::noinline]] static void* allocate_range(std::size_t bytes, std::size_t alignment) {
    if (bytes > kMost || alignment > kMost) return nullptr;
    const Visit visit = enter();
    if (visit.again) return Lone::allocate(bytes, alignment);
    work_off();
    void* block = alignment == 0 ? Parts::ranges.allocate(bytes) : Parts::ranges.allocate_aligned(bytes, alignment);
    Entry::leave(visit);
    return block;
  }

  [[gnu::noinline]] static void free_range(void* block) {
    if (Lone::owns(block)) return Lone::free(block);
    const Visit visit = enter();
    if (visit.again) return aside_.push(block);
    Parts::ranges.free(block);
    Entry::leave(visit);
  }

  static Visit enter() {
    return Entry::enter(Entry::take(), [] {
      start_process();
      auto* thread = Parts::front.start();
      if (thread != nullptr) hook_.arm();
      return thread;
    });
  }

  static void work_off() {
    if (aside_.empty()) [[likely]]
      return;
    aside_.work_off(kWorkOff, [](void* block) {
      if (PageRecord::prefix_of(block) != 0)
        Parts::spans.free(&block, 1);
      else
        Parts::ranges.free(block);
    });
  }

  // On the first visit of the first thread: before main, and before any other library registers for a fork, so
  // that its prepare handlers run before ours.
  static void start_process() {
    started_.run([] {
      hook_.create(at_thread_exit);
      os::at_fork(fork_prepare, fork_parent, fork_child);
    });
  }

  static void at_thread_exit(void*) {
    auto* thread = Entry::end();
    if (thread == nullptr) return;
    if (thread != &Front::Thread::nobody) Parts::front.stop(thread);
    Entry::ended();
  }

  // A fork in the middle of start_process() may have the handlers registered twice: the inner pair does nothing.
  static void fork_prepare() {
    if (forks_++ != 0) return;
    forking_ = enter();
    if (forking_.again) return;
    Parts::spans.fork_prepare();
    Parts::ranges.fork_prepare();
  }

  static void fork_parent() {
    if (--forks_ != 0 || forking_.again) return;
    const Visit visit = forking_;
    Parts::ranges.fork_parent();
    Parts::spans.fork_parent();
    Entry::leave(visit);
  }

  static void fork_child() {
    if (--forks_ != 0) return;
    aside_.reset();
    if (forking_.again) return;
    Parts::ranges.fork_child();
    Parts::spans.fork_child();
    Entry::leave(forking_);
  }

  static inline constinit core::FreeStack aside_;
  static inline constinit os::ThreadExitHook hook_;
  static inline constinit os::OnceAcrossForks started_;
  static inline constinit int forks_ = 0;    // prepared and not done: of the thread that forks
  static inline constinit Visit forking_{};  // of the one thread that forks, between prepare and parent or child
};

}  // namespace heapyard
