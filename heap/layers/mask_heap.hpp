// A heap whose blocks find their span by masking their address; the storey below a composition.
//
// Idea: scalloc (OOPSLA 2015, section 3). What lies in the reservation is in a virtual span, whose header says what
// it holds; what does not is a mapping of its own. This file joins front end, pool and reservation, and owns what
// is one per process: the exit hook, the fork handlers, and what was put aside by threads that were inside already
// (layers/frontend/entry.hpp). Cost: that of the front end up to 1 MiB; a system call each way beyond. Errors: null
// or false when memory is out.
//
// Aligned blocks are cut out of larger ones; a span remembers that it has such blocks, and a free in it looks for
// the start.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/core/free_stack.hpp"
#include "heap/core/scalloc_classes.hpp"
#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/prefix_heap.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

// `Parts` makes the layers: constinit statics `spans`, `pool`, `front` and types Front, Spans, Pages.
template <class Parts>
class MaskHeap {
  using Classes = core::ScallocClasses;
  using Front = typename Parts::Front;
  using Entry = typename Front::Entry;
  using Visit = typename Front::Visit;
  using Lone = LoneMapping<typename Parts::Pages>;
  using Spans = typename Parts::Spans;

 public:
  static void* allocate(std::size_t bytes) {
    if (bytes <= Classes::kLargest) [[likely]] {
      const unsigned c = Classes::class_of(bytes);
      void* block = Parts::front.allocate(c);
      return block != nullptr ? block : refill(c);
    }
    return bytes > kMost ? nullptr : Lone::allocate(bytes, kAlignment);
  }

  static void free(void* block) {
    if (block == nullptr) [[unlikely]]
      return;
    if (!Parts::spans.contains(block)) [[unlikely]]
      return Lone::free(block);
    ListSpan* span = span_of(block);
    if (span->has_aligned.load(std::memory_order_relaxed)) [[unlikely]]
      block = start_of(span, block);
    if (!Parts::front.free(span, block)) release(span, block);
  }

  // `alignment`: a power of two.
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (alignment <= kAlignment) return allocate(bytes);
    if (bytes > kMost || alignment > kMost) return nullptr;
    if (bytes + alignment <= Classes::kLargest) {
      void* block = allocate(bytes + alignment - kAlignment);
      if (block == nullptr) return nullptr;
      if (Parts::spans.contains(block)) {
        const std::uintptr_t at = os::round_up(reinterpret_cast<std::uintptr_t>(block), alignment);
        // Before the pointer is out, so whoever frees it sees this.
        span_of(block)->has_aligned.store(true, std::memory_order_relaxed);
        return reinterpret_cast<void*>(at);
      }
      Lone::free(block);  // the thread was inside already
    }
    return Lone::allocate(bytes, alignment);
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
    if (!Parts::spans.contains(block)) return Lone::usable(block);
    ListSpan* span = span_of(block);
    const auto* start = static_cast<const char*>(start_of(span, const_cast<void*>(block)));
    return Classes::kShapes[span->in_class()].bytes - static_cast<std::size_t>(static_cast<const char*>(block) - start);
  }

  // Free memory went back when it became free.
  static bool trim() { return false; }

  // Of real spans; mappings of single blocks are not counted. O(virtual spans).
  static HeapUsage usage() {
    HeapUsage sum{};
    for (std::size_t at = 0; at < Parts::spans.cut(); at += Spans::kSpan) {
      auto* span = reinterpret_cast<ListSpan*>(Parts::spans.start() + at);
      const auto& shape = Classes::kShapes[span->in_class()];
      sum.mapped += shape.span;
      sum.free += span->sample() & ListSpan::kFull ? shape.span : std::size_t{span->free_blocks()} * shape.bytes;
    }
    return sum;
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kMost = PTRDIFF_MAX / 2;
  static constexpr unsigned kWorkOff = 8;  // blocks put aside, freed per slow path

  static ListSpan* span_of(const void* block) {
    constexpr std::uintptr_t kMask = Spans::kSpan - 1;
    return reinterpret_cast<ListSpan*>(reinterpret_cast<std::uintptr_t>(block) & ~kMask);
  }

  static void* start_of(ListSpan* span, void* block) {
    const std::size_t bytes = Classes::kShapes[span->in_class()].bytes;
    const auto offset = static_cast<std::size_t>(static_cast<char*>(block) - span->blocks());
    return span->blocks() + offset / bytes * bytes;
  }

  [[gnu::noinline]] static void* refill(unsigned c) {
    const Visit visit = enter();
    if (visit.again) return Lone::allocate(Classes::kShapes[c].bytes, kAlignment);
    work_off(visit);
    void* block = Parts::front.refill(visit, c);
    Entry::leave(visit);
    return block;
  }

  [[gnu::noinline]] static void release(ListSpan* span, void* block) {
    const Visit visit = enter();
    if (visit.again) return aside_.push(block);
    work_off(visit);
    Parts::front.release(visit, span, block);
    Entry::leave(visit);
  }

  static void work_off(const Visit& visit) {
    if (aside_.empty()) [[likely]]
      return;
    aside_.work_off(kWorkOff, [&](void* block) { Parts::front.release(visit, span_of(block), block); });
  }

  static Visit enter() {
    return Entry::enter(Entry::take(), [] {
      start_process();
      auto* thread = Parts::front.start();
      if (thread != nullptr) hook_.arm();
      return thread;
    });
  }

  static void start_process() {
    started_.run([] {
      Parts::spans.reserve();
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
    if (!forking_.again) Parts::front.fork_prepare();
  }
  static void fork_parent() {
    if (--forks_ != 0 || forking_.again) return;
    const Visit visit = forking_;
    Parts::front.fork_parent();
    Entry::leave(visit);
  }
  static void fork_child() {
    if (--forks_ != 0) return;
    aside_.reset();
    if (forking_.again) return;
    Parts::front.fork_child(forking_.thread);
    Entry::leave(forking_);
  }

  static inline constinit core::FreeStack aside_;
  static inline constinit os::ThreadExitHook hook_;
  static inline constinit os::OnceAcrossForks started_;
  static inline constinit int forks_ = 0;    // prepared and not done: of the thread that forks
  static inline constinit Visit forking_{};  // of the one thread that forks, between prepare and parent or child
};

}  // namespace heapyard
