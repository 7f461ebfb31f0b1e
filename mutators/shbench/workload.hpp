// SPDX-License-Identifier: Apache-2.0
// Many sizes, mixed lifetimes, mixed order of release: like sh6bench and sh8bench, as far as their behaviour is
// described.
//
// Each worker fills a buffer of slots with objects of a fixed cycle of sizes; a fifth of them survives each turn of the
// buffer (slot_buffer.hpp). Variant sh8 adds a thread that allocates small objects for the workers to release: a stream
// of remote frees. The originals are proprietary and were not looked at.
// Cost O(sweeps x objects of a sweep) calls. Bookkeeping: 8 bytes per slot.
#pragma once

#include <sched.h>

#include <cstdint>

#include "../kit/session.hpp"
#include "../kit/spsc_ring.hpp"
#include "size_cycle.hpp"
#include "slot_buffer.hpp"

namespace heapyard::shbench {

enum class Variant { kSh6, kSh8 };
enum class Touch { kNone, kEnds, kAll };
enum class Order { kCycle, kRandom };

struct Options {
  kit::CommonOptions common;
  Variant variant = Variant::kSh6;
  std::int64_t slots = 0;        // of all threads together; 0: as the variant has it
  std::int64_t sweeps = 0;       // sh6: sweeps over all sizes; sh8: runs of one size; of all threads together
  std::int64_t min_size = 1;     // bytes, sh6
  std::int64_t max_size = 1000;  // bytes, sh6; no base reaches it
  std::int64_t survivors = 20;   // percent of the slots
  std::int64_t foreign = 0;      // sh8: objects allocated by one thread and released by the others
  Touch touch = Touch::kEnds;
  Order order = Order::kCycle;
};

// Objects that come from the thread that serves the others have numbers from here on.
inline constexpr std::uint64_t kForeign = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kForeignSize = 8;
inline constexpr std::size_t kRing = 4096;

class Workload {
 public:
  // In sh8, worker 0 serves the others and owns no slots.
  Workload(const Options& options, kit::Session& session, const SizeCycle& cycle)
      : options_(options),
        session_(session),
        cycle_(cycle),
        servers_(options.variant == Variant::kSh8),
        owners_(session.threads() - servers_) {
    for (std::size_t i = servers_; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      const std::uint64_t slots = slots_of(i);
      worker.make_table<Own>(1);
      Own& own = *new (worker.table<Own>()) Own{{worker.arena.take<void*>(slots), slots, window_of(slots)}, {}, 0};
      if (servers_) own.ring.prepare(worker.arena, kRing);
    }
  }

  static std::size_t bytes_per_worker(const Options& options, std::size_t owners) {
    const std::uint64_t slots = kit::share(static_cast<std::uint64_t>(options.slots), owners, 0);
    return slots * sizeof(void*) + sizeof(Own) + kRing * sizeof(void*) + 8 * kit::kCacheLine;
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    if (worker.index < servers_) return serve(heap);
    Own& own = *worker.table<Own>();
    const std::uint64_t sweeps =
        kit::share(static_cast<std::uint64_t>(options_.sweeps), owners_, worker.index - servers_);
    for (std::uint64_t i = 0; i < sweeps; ++i) {
      if (options_.variant == Variant::kSh8) {
        put_run(worker, own, cycle_.runs[i % cycle_.length], heap);
        while (receive(worker, own, heap)) {
        }
      } else {
        for (std::size_t run = 0; run < cycle_.length; ++run) put_run(worker, own, cycle_.runs[run], heap);
      }
    }
    while (own.received < foreign_of(worker.index))
      if (!receive(worker, own, heap)) sched_yield();
  }

  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    if (worker.index >= servers_) worker.table<Own>()->buffer.drain(heap);
  }

 private:
  struct Own {
    SlotBuffer buffer;
    kit::SpscRing<void*> ring;
    std::uint64_t received;
  };

  std::uint64_t slots_of(std::size_t thread) const {
    return kit::share(static_cast<std::uint64_t>(options_.slots), owners_, thread - servers_);
  }
  std::uint64_t window_of(std::uint64_t slots) const {
    return slots * static_cast<std::uint64_t>(options_.survivors) / 100;
  }
  std::uint64_t foreign_of(std::size_t thread) const {
    return servers_ ? kit::share(static_cast<std::uint64_t>(options_.foreign), owners_, thread - servers_) : 0;
  }

  // A size of the cycle, each as likely as it is frequent. O(runs).
  std::uint64_t draw(Random& random) const {
    std::uint64_t left = random.below(cycle_.objects);
    for (std::size_t run = 0;; ++run) {  // bound: the draw is below the sum of all counts
      if (left < cycle_.runs[run].count) return cycle_.runs[run].size;
      left -= cycle_.runs[run].count;
    }
  }

  template <class Operations>
  void put_run(kit::Worker& worker, Own& own, const SizeRun& run, Operations& heap) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const std::uint64_t size = options_.order == Order::kRandom ? draw(worker.random) : run.size;
      void* const object = heap.allocate(size, own.buffer.next());
      if (options_.touch == Touch::kAll) {
        kit::write_all(object, size, i);
      } else if (options_.touch == Touch::kEnds) {
        static_cast<std::uint8_t*>(object)[0] = static_cast<std::uint8_t>(i);
        static_cast<std::uint8_t*>(object)[size - 1] = static_cast<std::uint8_t>(i);
      }
      own.buffer.put(object, heap);
    }
  }

  // Allocates every foreign object, dealing them out in turn; each points to itself until its receiver has looked.
  template <class Operations>
  void serve(Operations& heap) {
    const auto foreign = static_cast<std::uint64_t>(options_.foreign);
    for (std::uint64_t i = 0; i < foreign; ++i) {
      void* const object = heap.allocate(kForeignSize, kForeign + i);
      *static_cast<void**>(object) = object;
      kit::SpscRing<void*>& ring = session_.worker(servers_ + i % owners_).table<Own>()->ring;
      while (!ring.push(object)) sched_yield();  // bound: receivers look after each run of theirs
    }
  }

  template <class Operations>
  bool receive(kit::Worker& worker, Own& own, Operations& heap) {
    void* object;
    if (!own.ring.pop(object)) return false;
    heap.saw(*static_cast<void**>(object) == object);
    heap.release(object, kForeign + own.received++ * owners_ + (worker.index - servers_));
    return true;
  }

  const Options& options_;
  kit::Session& session_;
  const SizeCycle& cycle_;
  std::size_t servers_;  // 1 in sh8
  std::size_t owners_;
};

}  // namespace heapyard::shbench
