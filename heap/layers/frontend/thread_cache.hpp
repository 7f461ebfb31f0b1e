// A small stack of free blocks per thread and size class, without a lock.
//
// Idea: BFM's thread-specific cache (paper, section 3.4): depth d = 8; an empty stack gets d/2 blocks, a full one
// gives d/2 back, each under one acquisition of the heap's lock. What goes back are the oldest, grouped by owner
// below. Sampled: two stacks per class (sampling.hpp), an empty one gets d/2 blocks of those that were freed last, and
// what is missing from the heap. Cost: O(1) and no atomic instruction while the stack is neither empty nor full; else
// O(d) and one call of the heap. Memory per thread: d blocks of each class that the thread frees, at most; sampled, one
// and a half times as many. Threads: each its own; at exit everything goes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "heap/layers/concepts.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/sampling.hpp"

namespace heapyard {

template <class Spans, class Ranges, unsigned Depth, class Sampling = NotSampled>
class ThreadCache {
  static_assert(Depth % 2 == 0 && Depth > 0 && Depth < 256);

 public:
  static constexpr bool kSampled = Sampling::kSampled;

  struct Stacks {
    std::uint8_t count[Spans::kClasses];
    void* block[Spans::kClasses][Depth];
  };
  struct Thread {
    static Thread nobody;
    unsigned heap;
    std::uint8_t depth;                                                           // 0 for nobody, who takes nothing
    Stacks ready;                                                                 // what malloc hands out
    [[no_unique_address]] std::conditional_t<kSampled, Stacks, NotSampled> back;  // and what free gets
    [[no_unique_address]] typename Sampling::template Turns<Spans::kClasses> turns;

    Stacks& freed() {
      if constexpr (kSampled)
        return back;
      else
        return ready;
    }
  };
  using Entry = heapyard::Entry<Thread>;
  using Visit = typename Entry::Visit;

  constexpr ThreadCache(Spans& spans, Ranges& ranges) : spans_(spans), ranges_(ranges) {}

  // A block, or null: refill() must be asked.
  void* allocate(unsigned size_class) {
    Thread* thread = Entry::take();
    const unsigned count = thread->ready.count[size_class];
    if (count == 0) [[unlikely]] {
      Entry::put(thread);
      return nullptr;
    }
    thread->ready.count[size_class] = static_cast<std::uint8_t>(count - 1);
    void* block = thread->ready.block[size_class][count - 1];
    Entry::put(thread);
    if (block == nullptr) __builtin_unreachable();  // spares the caller a test
    return block;
  }

  // Whether the block was taken; if not, flush() must be asked.
  bool free(unsigned size_class, void* block) {
    Thread* thread = Entry::take();
    Stacks& freed = thread->freed();
    const unsigned count = freed.count[size_class];
    if (count >= thread->depth) [[unlikely]] {
      Entry::put(thread);
      return false;
    }
    freed.block[size_class][count] = block;
    freed.count[size_class] = static_cast<std::uint8_t>(count + 1);
    Entry::put(thread);
    return true;
  }

  // The interval of the sample that the next block is, or 0.
  std::uint32_t due(const Visit& visit, unsigned size_class, std::size_t counted) {
    return visit.thread == nullptr ? Sampling::due_alone(counted) : visit.thread->turns.due(size_class, counted);
  }

  // A block for a thread whose stack is empty; null when memory is out. `visit` must not be `again`.
  void* refill(const Visit& visit, unsigned size_class) {
    if (visit.thread == nullptr) return direct(size_class);
    Thread& thread = *visit.thread;
    if constexpr (kSampled) return refill_split(thread, size_class);
    const unsigned got = fill(thread, size_class, Depth / 2);
    if (got == 0) return nullptr;
    thread.ready.count[size_class] = static_cast<std::uint8_t>(got - 1);
    return thread.ready.block[size_class][got - 1];
  }

  // Takes a block for which the stack had no room. `visit` must not be `again`.
  void flush(const Visit& visit, unsigned size_class, void* block) {
    if (visit.thread == nullptr) {
      spans_.free(&block, 1);
      return;
    }
    Stacks& freed = visit.thread->freed();
    if (freed.count[size_class] == Depth) {
      void** stack = freed.block[size_class];
      spans_.free(stack, Depth / 2);
      std::memcpy(stack, stack + Depth / 2, Depth / 2 * sizeof(void*));
      freed.count[size_class] = Depth / 2;
    }
    freed.block[size_class][freed.count[size_class]++] = block;
  }

  // The front end of a thread that comes for the first time; null when memory is out.
  Thread* start() {
    void* memory = ranges_.allocate(sizeof(Thread));
    if (memory == nullptr) return nullptr;
    auto* thread = static_cast<Thread*>(std::memset(memory, 0, sizeof(Thread)));
    thread->heap = spans_.heap_of_new_thread();
    thread->depth = Depth;
    return thread;
  }

  // Everything the thread holds goes back. O(classes x depth).
  void stop(Thread* thread) {
    give_back(thread->ready);
    if constexpr (kSampled) give_back(thread->back);
    ranges_.free(thread);
  }

 private:
  // Up to `most` blocks of the heap onto an empty stack, which is not told; how many.
  unsigned fill(Thread& thread, unsigned size_class, unsigned most) {
    void* blocks[Depth / 2];
    const unsigned got = spans_.allocate(size_class, blocks, most, thread.heap);
    // The first was freed last, or lies lowest: it is handed out first.
    for (unsigned i = 0; i < got; ++i) thread.ready.block[size_class][i] = blocks[got - 1 - i];
    return got;
  }

  // As many blocks as lie before the next sample, at most a half: those that came back last, on top of some of the heap
  // where hardly any came back.
  void* refill_split(Thread& thread, unsigned c) {
    const unsigned most = thread.turns.may_hand_out(c, Depth / 2), held = thread.back.count[c];
    const unsigned again = held < most ? held : most;
    const unsigned fresh = again < most && again < Depth / 4 ? fill(thread, c, most - again) : 0, got = again + fresh;
    if (got == 0) return nullptr;
    void** ready = thread.ready.block[c];
    std::memcpy(ready + fresh, thread.back.block[c] + held - again, again * sizeof(void*));
    thread.back.count[c] = static_cast<std::uint8_t>(held - again);
    thread.turns.hands_out(c, got);
    thread.ready.count[c] = static_cast<std::uint8_t>(got - 1);
    return ready[got - 1];
  }

  void give_back(Stacks& stacks) {
    for (unsigned c = 0; c < Spans::kClasses; ++c) {
      if (stacks.count[c] > 0) spans_.free(stacks.block[c], stacks.count[c]);
    }
  }

  void* direct(unsigned size_class) {
    void* block;
    return spans_.allocate(size_class, &block, 1, 0) == 1 ? block : nullptr;
  }

  Spans& spans_;
  Ranges& ranges_;
};

template <class Spans, class Ranges, unsigned Depth, class Sampling>
constinit typename ThreadCache<Spans, Ranges, Depth, Sampling>::Thread
    ThreadCache<Spans, Ranges, Depth, Sampling>::Thread::nobody{};

}  // namespace heapyard
