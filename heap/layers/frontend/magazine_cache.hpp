// SPDX-License-Identifier: Apache-2.0
// Per thread and class a claimed slab, and a magazine: a stack of free objects of any slab.
//
// Idea: elfmalloc's front ends. malloc pops from the magazine. An empty magazine is filled from the next word of the
// slab's bitset. free pushes. From a full magazine the upper half goes back, coalesced to one operation per word of a
// bitset. Capacity (magazine_capacity.hpp) decides how many objects a thread may hoard, and whether it keeps objects of
// slabs that it does not own. A magazine begins small and grows eightfold whenever it is full, up to its capacity. So
// only threads that fill it pay for address space and page tables.
// Cost: O(1), without a lock or an atomic instruction, while the magazine is neither empty nor full. A refill is
// O(words of a bitset), a flush O(capacity); the frees that fill a magazine pay for its growth. Memory per thread: the
// magazines that it used, given back when it ends. Fork: the child gives back what threads held that it does not have.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "heap/layers/span_concepts.hpp"
#include "heap/layers/frontend/coalescer.hpp"
#include "heap/layers/frontend/entry.hpp"
#include "heap/layers/frontend/front_ends.hpp"
#include "heap/layers/frontend/magazine_capacity.hpp"
#include "heap/layers/frontend/thread_places.hpp"
#include "heap/os/bound.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Owner: the heap, whose threads' magazines these are.
template <SlabStore HeapT, SlabFinder Map, PageSource Pages, CapacityPolicy Capacity, class Owner>
class MagazineCache : public NothingHeld {
 public:
  using Heap = HeapT;  // a SlabHeap
  using Slab = typename Heap::Slab;
  using Classes = typename Heap::Classes;
  static constexpr unsigned kClasses = Classes::kClasses;

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
    Slab* slab[Classes::kClasses];  // the thread's own
    Reader readers[Classes::kClasses];
    unsigned number;
    bool open;
    std::atomic<Thread*> link;  // with `before`: of all front ends
    Thread* before;
    Coalescer<Slab, 1024> coalescer;
  };
  using Entry = heapyard::Entry<Thread, Owner>;
  using Visit = typename Entry::Visit;

  constexpr explicit MagazineCache(Heap& heap) : heap_(heap) {}

  void* allocate(unsigned c) {
    Thread* thread = Entry::take();
    void** const top = thread->top[c];
    if (top == thread->floor[c]) [[unlikely]] {
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

  // An object of a thread that is inside, or null.
  static void* pop(Thread& thread, unsigned c) { return thread.top[c] == thread.floor[c] ? nullptr : *--thread.top[c]; }

  // What allocate() had not at hand. `visit` must not be `again`. Null when memory is out, or the thread has no
  // magazines.
  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread == nullptr) [[unlikely]]
      return nullptr;
    Thread& thread = *visit.thread;
    Reader& reader = thread.readers[c];
    // To the end of a slab, and once through one whose free objects are counted.
    os::Bound bound(2 * Classes::kShapes[c].words + 2);
    while (reader.bits == 0) {
      bound.turn();
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
    reader.bits = 0;
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
    if (!Capacity::kForeign && thread->slab[c] != slab) return free_one(slab, object, thread->number);
    void** const limit = thread->limit[c];
    if (thread->top[c] == limit && !grow(*thread, c)) {
      const auto half = static_cast<std::size_t>(limit - thread->floor[c]) / 2;
      if (!Capacity::kForeign || half == 0) return free_one(slab, object, thread->number);
      thread->top[c] -= half;
      give_back(*thread, limit - half, limit);
    }
    *thread->top[c]++ = object;
  }

  // What the calling thread holds goes back, if it is more than `few` bytes. `own`: the thread's, or null. O(objects
  // held).
  void release_idle(Thread* own, std::size_t few) {
    if (own == nullptr) return;
    std::size_t held = 0;
    for (unsigned c = 0; c < Classes::kClasses; ++c)
      held += static_cast<std::size_t>(own->top[c] - own->floor[c]) * Classes::kShapes[c].bytes;
    if (held <= few) return;
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      void** const end = std::exchange(own->top[c], own->floor[c]);
      give_back(*own, own->floor[c], end);
    }
  }

  // Null when memory is out, or there are very many threads.
  Thread* start() {
    if (!places_.take()) return nullptr;
    Thread* thread = all_.take();
    if (thread == nullptr) {
      void* memory = Pages::map(sizeof(Thread) + kMagazines);
      if (memory == nullptr) return places_.leave(), nullptr;
      thread = static_cast<Thread*>(memory);  // zeroed
      all_.add(thread);
    }
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      thread->top[c] = thread->floor[c] = first_magazine(*thread, c);
      thread->limit[c] = thread->floor[c] + first_capacity(c);
      thread->slab[c] = nullptr;
      thread->readers[c] = {};
    }
    thread->number = next_.fetch_add(1, std::memory_order_relaxed) + 1;
    thread->open = true;
    return thread;
  }

  // Everything the thread holds goes back, and its magazines' memory with it. O(objects held).
  void stop(Thread* thread) {
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      const Reader reader = thread->readers[c];
      void **const floor = thread->floor[c], **const end = thread->top[c];
      const std::size_t bytes = bytes_of(*thread, c);
      thread->top[c] = thread->limit[c] = floor;
      give_back(*thread, floor, end);
      if (mapped(*thread, floor)) Pages::unmap(floor, bytes);
      Slab* slab = std::exchange(thread->slab[c], nullptr);
      if (slab == nullptr) continue;
      if (reader.bits != 0) heap_.free(slab, reader.word - 1, reader.bits, thread->number);
      heap_.unclaim(slab, thread->number);
    }
    thread->open = false;
    Pages::decommit(&thread->coalescer, sizeof thread->coalescer + kMagazines);  // zeroed is empty
    all_.give_back(thread);
    places_.leave();
  }

  // In a child: what threads held that it has not. `own`: that of its one thread, or null.
  void take_over(const Thread* own) {
    all_.for_each([&](Thread* thread) {
      if (thread != own && thread->open) stop(thread);
    });
  }

  // Of the objects that threads keep. Exact while they do nothing. O(threads x classes).
  std::size_t free_bytes() {
    std::size_t bytes = 0;
    all_.for_each([&](Thread* thread) {
      if (!thread->open) return;
      for (unsigned c = 0; c < Classes::kClasses; ++c) {
        // Whoever is asked while a magazine moves may see one end of the old one and one of the new.
        const auto kept = std::min(static_cast<std::size_t>(seen(thread->top[c]) - seen(thread->floor[c])),
                                   Capacity::of(Classes::kShapes[c]));
        const auto unread = static_cast<unsigned>(std::popcount(seen(thread->readers[c].bits)));
        bytes += (kept + unread) * Classes::kShapes[c].bytes;
      }
    });
    return bytes;
  }

 private:
  static constexpr std::size_t kFirst = 32, kGrowth = 8, kSecond = kFirst * kGrowth;  // objects; times; objects

  static constexpr std::size_t first_capacity(unsigned c) {
    const std::size_t most = Capacity::of(Classes::kShapes[c]);
    return most < kFirst ? most : kFirst;
  }
  // Behind a thread lie its first magazines, by class, and its second: threads that come and go map nothing but these.
  static constexpr std::size_t kMagazines = Classes::kClasses * (kFirst + kSecond) * sizeof(void*);
  static void** first_magazine(Thread& thread, unsigned c) {
    return reinterpret_cast<void**>(&thread + 1) + c * kFirst;
  }
  static void** second_magazine(Thread& thread, unsigned c) {
    return first_magazine(thread, Classes::kClasses) + c * kSecond;
  }
  // Whether the magazine is a mapping of its own.
  static bool mapped(Thread& thread, void** magazine) {
    return static_cast<std::size_t>(magazine - first_magazine(thread, 0)) >= kMagazines / sizeof(void*);
  }

  static std::size_t bytes_of(const Thread& thread, unsigned c) {
    return static_cast<std::size_t>(thread.limit[c] - thread.floor[c]) * sizeof(void*);
  }

  // Whether a full magazine has more room now.
  [[gnu::noinline, gnu::cold]] bool grow(Thread& thread, unsigned c) {
    const std::size_t most = Capacity::of(Classes::kShapes[c]) * sizeof(void*), bytes = bytes_of(thread, c);
    if (bytes >= most) return false;
    const std::size_t more = bytes * kGrowth < most ? bytes * kGrowth : most;
    void** const old = thread.floor[c];
    auto** const magazine =
        more <= kSecond * sizeof(void*) ? second_magazine(thread, c) : static_cast<void**>(Pages::map(more));
    if (magazine == nullptr) return false;
    std::memcpy(magazine, old, bytes);
    thread.floor[c] = magazine;
    thread.top[c] = magazine + bytes / sizeof(void*);
    thread.limit[c] = magazine + more / sizeof(void*);
    if (mapped(thread, old)) Pages::unmap(old, bytes);
    return true;
  }

  // What another thread writes.
  template <class T>
  static T seen(const T& written) {
    return __atomic_load_n(&written, __ATOMIC_RELAXED);
  }

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

  Heap& heap_;
  ThreadPlaces places_;
  FrontEnds<Thread> all_;
  std::atomic<unsigned> next_{0};
};

template <SlabStore Heap, SlabFinder Map, PageSource Pages, CapacityPolicy Capacity, class Owner>
constinit typename MagazineCache<Heap, Map, Pages, Capacity, Owner>::Thread
    MagazineCache<Heap, Map, Pages, Capacity, Owner>::Thread::nobody{};

}  // namespace heapyard
