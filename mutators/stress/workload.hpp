// SPDX-License-Identifier: Apache-2.0
// Threads that allocate, release and swap objects at random and end; what they hold passes to the threads after them.
//
// In the manner of mstress of mimalloc-bench, with the work fixed. Each worker has a chain of threads and a table of
// slots; all have a pool of places in common. A step makes an object in a random slot (of every ten one by calloc, few
// very large), releases what a slot holds, or swaps a slot's object with that of a place, so that it may end up with
// anyone. When a thread ends, a share of its objects stays for its successor. What a thread draws never depends on what
// it got, so that the allocations are the same under any schedule; every object carries its number and its size.
// Cost O(generations x steps) calls a thread. Bookkeeping: 8 bytes per slot and place.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "../kit/octaves.hpp"
#include "../kit/session.hpp"
#include "../kit/successors.hpp"

namespace heapyard::stress {

struct Options {
  kit::CommonOptions common;
  std::int64_t generations = 20;  // threads that follow each other
  std::int64_t steps = 50'000;    // of a thread
  std::int64_t slots = 10'000;    // of a thread
  std::int64_t pool = 5000;       // places that all threads have in common
  std::int64_t persist = 50;      // percent of a thread's objects that outlive it
  std::int64_t min_size = 16;     // bytes; an object holds its number and its size
  std::int64_t max_size = 1024;   // bytes
  std::int64_t large = 1;         // percent of the objects that are kLargeFactor times as large
};

inline constexpr std::uint64_t kLargeFactor = 100;
inline constexpr std::uint64_t kMakes = 60, kReleases = 75;  // percent of the steps, accumulated; the others swap
inline constexpr std::uint64_t kZeroed = 10;                 // percent of the objects

class Workload {
 public:
  Workload(const Options& options, kit::Session& session)
      : options_(options),
        sizes_(static_cast<std::uint64_t>(options.min_size), static_cast<std::uint64_t>(options.max_size)) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Own>(1);
      *worker.table<Own>() = {worker.arena.take<Object*>(slots()), static_cast<std::uint64_t>(i) << kNumberBits};
    }
    pool_ = session.worker(0).arena.take<std::atomic<Object*>>(places());
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Own) + static_cast<std::size_t>(options.slots + options.pool) * sizeof(void*);
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    for (std::int64_t made = 0; made < options_.generations; ++made)
      successors_.run(worker, [&] { live(worker, heap); });
  }

  // All threads have ended their measured part: what is in the pool stays there.
  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    for (std::uint64_t i = 0; i < slots(); ++i) discard(heap, worker.table<Own>()->slots[i]);
    for (std::uint64_t i = 0; worker.index == 0 && i < places(); ++i) discard(heap, pool_[i].exchange(nullptr));
  }

 private:
  struct Object {
    std::uint64_t number;
    std::uint64_t size;
  };
  struct Own {
    Object** slots;
    std::uint64_t next;  // number of the next object
  };

  static constexpr unsigned kNumberBits = 44;  // numbers of one thread

  std::uint64_t slots() const { return static_cast<std::uint64_t>(options_.slots); }
  std::uint64_t places() const { return static_cast<std::uint64_t>(options_.pool); }

  template <class Operations>
  void live(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    Random random = worker.random;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      const std::uint64_t action = random.below(100);
      Object*& slot = own.slots[random.below(slots())];
      if (action < kReleases) discard(heap, std::exchange(slot, nullptr));
      if (action < kMakes) slot = make(own, random, heap);
      // Who receives an object has seen all that was written to it.
      if (action >= kReleases) slot = pool_[random.below(places())].exchange(slot, std::memory_order_acq_rel);
    }
    for (std::uint64_t i = 0; i < slots(); ++i)
      if (!random.percent(static_cast<std::uint64_t>(options_.persist)))
        discard(heap, std::exchange(own.slots[i], nullptr));
    worker.random = random;
  }

  template <class Operations>
  Object* make(Own& own, Random& random, Operations& heap) {
    std::uint64_t size = sizes_.draw(random);
    if (random.percent(static_cast<std::uint64_t>(options_.large))) size *= kLargeFactor;
    const bool zeroed = random.percent(kZeroed);
    void* const made = zeroed ? heap.allocate_zeroed(size, own.next) : heap.allocate(size, own.next);
    if (zeroed)
      for (std::uint64_t i = 0; i < size; ++i) heap.saw(static_cast<const std::uint8_t*>(made)[i]);
    kit::write_pages(made, size, static_cast<std::uint8_t>(own.next));
    heap.hold(size);
    return new (made) Object{own.next++, size};
  }

  template <class Operations>
  void discard(Operations& heap, Object* object) {
    if (!object) return;
    const auto [number, size] = *object;
    heap.saw(number ^ size);
    if (size > sizeof(Object)) heap.saw(reinterpret_cast<const std::uint8_t*>(object)[size - 1]);
    heap.drop(size);
    heap.release(object, number);
  }

  const Options& options_;
  kit::Octaves sizes_;
  kit::Successors successors_;
  std::atomic<Object*>* pool_ = nullptr;
};

}  // namespace heapyard::stress
