// Per thread and class a claimed slab, and a magazine: a stack of free objects of any slab.
//
// Idea: elfmalloc's front ends. malloc pops the magazine; an empty one is filled from the next word of the slab's
// bitset. free pushes; of a full magazine the upper half goes back, coalesced to one operation per word of a bitset.
// Capacity decides how much a thread may hoard; LocalCache keeps objects of its own slab only, so that the magazine
// never hoards. Cost: O(1), no lock and no atomic instruction while the magazine is neither empty nor full; a refill
// O(words of a bitset), a flush O(capacity). Memory per thread: the magazines that it used, given back when it ends.
// Fork: what threads that the child has not were holding goes back in the child.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "heap/core/tagged_stack.hpp"
#include "heap/layers/frontend/coalescer.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/magazine_capacity.hpp"
#include "heap/layers/frontend/sampling.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

template <class HeapT, class Map, class Pages, class Capacity, class Sampling = NotSampled>
class MagazineCache {
 public:
  static constexpr bool kSampled = Sampling::kSampled;
  using Heap = HeapT;  // a SlabHeap
  using Slab = typename Heap::Slab;
  using Classes = typename Heap::Classes;

  // Where its own slab is being read.
  struct Reader {
    std::uint64_t bits;  // taken from `word` - 1, not yet handed out
    unsigned word;       // to be taken next
  };
  struct Thread {
    static Thread nobody;
    // Magazines, by class; as arrays, for an index costs nothing then.
    void** top[Classes::kClasses];  // one past the object pushed last
    void** floor[Classes::kClasses];
    void** limit[Classes::kClasses];
    [[no_unique_address]] typename Sampling::template Turns<Classes::kClasses> turns;
    Slab* slab[Classes::kClasses];  // the thread's own
    Reader readers[Classes::kClasses];
    unsigned number;
    bool open;
    std::atomic<Thread*> link;  // of the stack of those without a thread
    Thread* before;             // made before this one; never changes
    Coalescer<Slab, 1024> coalescer;
  };
  using Entry = heapyard::Entry<Thread>;
  using Visit = typename Entry::Visit;

  constexpr explicit MagazineCache(Heap& heap) : heap_(heap) {}

  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void** const top = thread->top[c];
    if (top == thread->floor[c] || !thread->turns.goes_by(c)) [[unlikely]] {
      Entry::put(thread);
      return nullptr;
    }
    thread->top[c] = top - 1;
    void* object = top[-1];
    Entry::put(thread);
    if (object == nullptr) __builtin_unreachable();  // spares the caller a test
    return object;
  }

  // Whether the magazine took it. Else release() must be asked.
  bool free(Slab* slab, void* object) {
    Thread* thread = Entry::take();
    const unsigned c = slab->in_class();
    void** const top = thread->top[c];
    const bool taken = top != thread->limit[c] && (Capacity::kForeign || thread->slab[c] == slab);
    if (taken) [[likely]] {
      *top = object;
      std::atomic_signal_fence(std::memory_order_release);  // a child forked right here finds no stale object
      thread->top[c] = top + 1;
    }
    Entry::put(thread);
    return taken;
  }

  // The interval of the sample that the next object is, or 0.
  std::uint32_t due(const Visit& visit, unsigned c, std::size_t counted) {
    return visit.thread == nullptr ? Sampling::due_alone(counted) : visit.thread->turns.due(c, counted);
  }

  // What allocate() had not at hand. `visit` must not be `again`. Null when memory is out.
  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread == nullptr) return one_object(c);
    Thread& thread = *visit.thread;
    if (kSampled && thread.top[c] != thread.floor[c]) return *--thread.top[c];
    Reader& reader = thread.readers[c];
    while (reader.bits == 0) {  // bound: twice the words of a bitset, for a claimed slab has free objects
      Slab* slab = thread.slab[c];
      if (slab != nullptr && reader.word < slab->shape().words) {
        reader.bits = slab->take(reader.word++);
      } else if (slab != nullptr && slab->worth_claiming()) {
        reader.word = 0;
      } else if (!claim(thread, c)) {
        return nullptr;
      }
    }
    std::uint64_t bits = reader.bits;
    reader.bits = 0;  // before they are elsewhere: see coalescer.hpp on forks
    const unsigned word = reader.word - 1;
    // The lowest is handed out now, the next lowest first after that; what the magazine cannot hold stays.
    Slab* const slab = thread.slab[c];
    for (; (bits & (bits - 1)) != 0 && thread.top[c] < thread.limit[c]; ++thread.top[c]) {
      const int highest = 63 - std::countl_zero(bits);
      bits &= ~(std::uint64_t{1} << highest);
      *thread.top[c] = slab->object_of(word, static_cast<unsigned>(highest));
    }
    void* object = slab->object_of(word, static_cast<unsigned>(std::countr_zero(bits)));
    reader.bits = bits & (bits - 1);
    return object;
  }

  // Takes an object that the magazine did not. `visit` must not be `again`.
  void release(const Visit& visit, Slab* slab, void* object) {
    Thread* thread = visit.thread;
    if (thread == nullptr) return free_one(slab, object, 0);
    const unsigned c = slab->in_class();
    void** const limit = thread->limit[c];
    const std::size_t half = Capacity::of(Classes::kShapes[c]) / 2;
    if (!Capacity::kForeign || half == 0) return free_one(slab, object, thread->number);
    if (thread->top[c] == limit) {
      thread->top[c] -= half;
      give_back(*thread, limit - half, limit);
    }
    *thread->top[c]++ = object;
  }

  Thread* start() {
    Thread* thread = unused_.pop();
    if (thread == nullptr) {
      void* memory = Pages::map(sizeof(Thread) + kMagazines);
      if (memory == nullptr) return nullptr;
      thread = static_cast<Thread*>(memory);  // zeroed
      const os::Locked locked(making_);
      thread->before = made_;
      made_ = thread;
    }
    auto** at = reinterpret_cast<void**>(thread + 1);
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      thread->top[c] = thread->floor[c] = at;
      at += Capacity::of(Classes::kShapes[c]);
      thread->limit[c] = at;
      thread->slab[c] = nullptr;
      thread->readers[c] = {};
    }
    thread->turns = {};
    thread->number = next_.fetch_add(1, std::memory_order_relaxed) + 1;
    thread->open = true;
    return thread;
  }

  // Everything the thread holds goes back, and its magazines' memory with it. O(objects held).
  void stop(Thread* thread) {
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      const Reader reader = thread->readers[c];
      void** const end = thread->top[c];
      thread->top[c] = thread->limit[c] = thread->floor[c];
      give_back(*thread, thread->floor[c], end);
      Slab* slab = std::exchange(thread->slab[c], nullptr);
      if (slab == nullptr) continue;
      if (reader.bits != 0) heap_.free(slab, reader.word - 1, reader.bits, thread->number);
      heap_.unclaim(slab, thread->number);
    }
    thread->open = false;
    Pages::decommit(thread + 1, kMagazines);
    unused_.push(thread);
  }

  void fork_prepare() {
    making_.lock();
    heap_.fork_prepare();
  }
  void fork_parent() {
    heap_.fork_parent();
    making_.unlock();
  }
  void fork_child(Thread* own) {
    making_.reset();
    heap_.fork_child();
    for (Thread* thread = made_; thread != nullptr; thread = thread->before) {
      if (thread != own && thread->open) stop(thread);
    }
  }

 private:
  static constexpr std::size_t kMagazines = [] {
    std::size_t bytes = 0;
    for (const core::SlabShape& shape : Classes::kShapes) bytes += Capacity::of(shape) * sizeof(void*);
    return bytes;
  }();

  // Whether another slab was found.
  bool claim(Thread& thread, unsigned c) {
    Slab*& slab = thread.slab[c];
    if (slab != nullptr) heap_.unclaim(std::exchange(slab, nullptr), thread.number);
    thread.readers[c].word = 0;
    slab = heap_.claim(c, thread.number);
    return slab != nullptr;
  }

  void give_back(Thread& thread, void** from, void** end) {
    const auto free = [&](Slab* slab, std::size_t word, std::uint64_t bits) {
      heap_.free(slab, word, bits, thread.number);
    };
    for (; from != end; ++from) thread.coalescer.add(Map::of(*from), *from, free);
    thread.coalescer.flush(free);
  }

  void free_one(Slab* slab, void* object, unsigned thread) {
    const std::size_t bit = slab->bit_of(object);
    heap_.free(slab, bit / 64, std::uint64_t{1} << bit % 64, thread);
  }

  // For a thread that has ended.
  void* one_object(unsigned c) {
    Slab* slab = heap_.claim(c, 0);
    if (slab == nullptr) return nullptr;
    unsigned word = 0;
    std::uint64_t bits = 0;
    while (bits == 0) bits = slab->take(word++);  // bound: words of a bitset, for a slab just claimed has a free object
    void* object = slab->object_of(word - 1, static_cast<unsigned>(std::countr_zero(bits)));
    if ((bits & (bits - 1)) != 0) slab->give(word - 1, bits & (bits - 1));
    heap_.unclaim(slab, 0);
    return object;
  }

  Heap& heap_;
  core::TaggedStack<Thread> unused_;
  std::atomic<unsigned> next_{0};
  os::Lock making_;
  Thread* made_ = nullptr;  // every one ever, the newest first
};

template <class Heap, class Map, class Pages, class Capacity, class Sampling>
constinit typename MagazineCache<Heap, Map, Pages, Capacity, Sampling>::Thread
    MagazineCache<Heap, Map, Pages, Capacity, Sampling>::Thread::nobody{};

}  // namespace heapyard
