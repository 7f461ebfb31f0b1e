// SPDX-License-Identifier: Apache-2.0
// Allocate, zero, release half: what the factorial study of allocators asks of each of its threads.
//
// After Elias et al., "Experimental and theoretical analyses of memory allocation algorithms" (SAC
// 2014). NA allocations are shared out among NT threads, sizes uniform in an interval, each filled with
// zeros; when every thread has all of its objects, half of them are released: the first half in the order of
// allocation, as published, or every other one, or a random half, by their owner or by its neighbour. On request as
// many are then allocated anew. Between phases all threads meet and one looks at memory; what that takes is not part
// of the execution time. Sizes are drawn beforehand, so all allocators get the same ones and no draw is timed.
// Cost O(NA) calls. Bookkeeping: 12 to 20 bytes per object, resident from the start.
#pragma once

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "../kit/process_memory.hpp"
#include "../kit/session.hpp"

namespace heapyard::factorial {

enum class Zero { kEach, kLater, kNever };
enum class Half { kFirst, kAlternate, kRandom };

struct Options {
  kit::CommonOptions common;
  std::int64_t allocations = 500'000;  // of all threads together
  std::int64_t min_size = 16;          // bytes
  std::int64_t max_size = 64;          // bytes, included
  std::int64_t processors = 0;         // that the threads may use; 0: as started
  Zero zero = Zero::kEach;
  Half half = Half::kFirst;
  bool remote = false;      // the neighbour releases
  bool again = false;       // as many allocations once more after the release
  std::int64_t settle = 0;  // ms between the release and one more look at memory
};

// The phases that are timed, and the looks at memory after some of them.
enum Timed { kAllocate, kZero, kRelease, kAgain, kZeroAgain, kTimed };
enum Look { kFilled, kReleased, kSettled, kRefilled, kLooks };

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options), session_(session) {
    resident_.open();
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Own>(1);
      Own& own = *worker.table<Own>();
      own.count = kit::share(static_cast<std::uint64_t>(options.allocations), session.threads(), i);
      own.objects = worker.arena.take<void*>(own.count);
      own.sizes = worker.arena.take<std::uint32_t>(own.count);
      own.order = worker.arena.take<std::uint32_t>(own.count);
      if (options.again) own.new_sizes = worker.arena.take<std::uint32_t>(own.count / 2);
    }
  }

  static std::size_t bytes_per_worker(const Options& options) {
    const std::uint64_t most = kit::share(static_cast<std::uint64_t>(options.allocations),
                                          static_cast<std::size_t>(options.common.threads), 0);
    return sizeof(Own) + most * (sizeof(void*) + 3 * sizeof(std::uint32_t)) + 8 * kit::kCacheLine;
  }

  // Draws all sizes and which objects are to be released. No heap call.
  template <class Operations>
  void before(kit::Worker& worker, Operations&) {
    Own& own = *worker.table<Own>();
    const auto draw = [&] {
      return static_cast<std::uint32_t>(worker.random.between(static_cast<std::uint64_t>(options_.min_size),
                                                              static_cast<std::uint64_t>(options_.max_size)));
    };
    for (std::uint64_t i = 0; i < own.count; ++i) {
      own.bytes += own.sizes[i] = draw();
      own.order[i] = static_cast<std::uint32_t>(i);
    }
    for (std::uint64_t k = 0; k < half(own); ++k) {
      if (options_.half == Half::kAlternate) own.order[k] = static_cast<std::uint32_t>(2 * k);
      if (options_.half == Half::kRandom) std::swap(own.order[k], own.order[worker.random.between(k, own.count - 1)]);
      own.released_bytes += own.sizes[own.order[k]];
    }
    for (std::uint64_t k = 0; options_.again && k < half(own); ++k) own.new_bytes += own.new_sizes[k] = draw();
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    timed(own, kAllocate, [&] {
      for (std::uint64_t i = 0; i < own.count; ++i) own.objects[i] = make(heap, own.sizes[i], i);
    });
    if (options_.zero == Zero::kLater) {
      session_.wait_for_all();
      timed(own, kZero, [&] {
        for (std::uint64_t i = 0; i < own.count; ++i) std::memset(own.objects[i], 0, own.sizes[i]);
      });
    }
    look(worker, kFilled);
    Own& victim = options_.remote ? *session_.worker((worker.index + 1) % session_.threads()).table<Own>() : own;
    timed(own, kRelease, [&] {
      for (std::uint64_t k = 0; k < half(victim); ++k) {
        const std::uint32_t i = victim.order[k];
        heap.release(victim.objects[i], i);
      }
    });
    look(worker, kReleased);
    if (options_.settle) {
      if (worker.index == 0) wait(options_.settle);
      look(worker, kSettled);
    }
    if (!options_.again) return;
    timed(own, kAgain, [&] {
      for (std::uint64_t k = 0; k < half(own); ++k) {
        const std::uint32_t i = own.order[k];
        own.objects[i] = make(heap, own.new_sizes[k], i);
      }
    });
    if (options_.zero == Zero::kLater) {
      session_.wait_for_all();
      timed(own, kZeroAgain, [&] {
        for (std::uint64_t k = 0; k < half(own); ++k) std::memset(own.objects[own.order[k]], 0, own.new_sizes[k]);
      });
    }
    look(worker, kRefilled);
  }

  // What a surviving object holds is looked at here, off the clock.
  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    for (std::uint64_t k = 0; k < half(own); ++k) {
      if (options_.again)
        own.sizes[own.order[k]] = own.new_sizes[k];
      else
        own.objects[own.order[k]] = nullptr;
    }
    for (std::uint64_t i = 0; i < own.count; ++i) {
      if (!own.objects[i]) continue;
      const auto* const bytes = static_cast<const std::uint8_t*>(own.objects[i]);
      std::uint64_t sum = 0;
      for (std::uint32_t b = 0; options_.zero != Zero::kNever && b < own.sizes[i]; ++b) sum += bytes[b];
      heap.saw(sum);
      heap.release(own.objects[i], i);
    }
  }

  // Milliseconds from the first thread's start of a phase to the last one's end; 0 when there was none. O(threads).
  double phase_ms(Timed phase) const {
    std::uint64_t first = UINT64_MAX, last = 0;
    for (std::size_t i = 0; i < session_.threads(); ++i) {
      const Own& own = *session_.worker(i).table<Own>();
      first = std::min(first, own.started_ns[phase]);
      last = std::max(last, own.ended_ns[phase]);
    }
    return static_cast<double>(last - first) * 1e-6;
  }
  // Bytes resident at a look, the base included, bookkeeping not; and bytes then held by the workload. 0: no such look.
  std::uint64_t resident(Look look) const { return resident_at_[look]; }
  std::uint64_t live(Look look) const { return live_at_[look]; }

 private:
  struct Own {
    void** objects;
    std::uint32_t* sizes;
    std::uint32_t* order;      // the first half of it is released, in this order
    std::uint32_t* new_sizes;  // of what takes the place of the released
    std::uint64_t count;
    std::uint64_t bytes, released_bytes, new_bytes;  // of all objects, of those released, of their successors
    std::uint64_t started_ns[kTimed], ended_ns[kTimed];
  };

  static std::uint64_t half(const Own& own) { return own.count / 2; }
  static std::uint64_t held(const Own& own, Look at) {
    return own.bytes - (at == kFilled ? 0 : own.released_bytes) + (at == kRefilled ? own.new_bytes : 0);
  }

  template <class Operations>
  void* make(Operations& heap, std::uint32_t size, std::uint64_t object) {
    void* const made = heap.allocate(size, object);
    if (options_.zero == Zero::kEach) std::memset(made, 0, size);
    return made;
  }

  template <class Body>
  void timed(Own& own, Timed phase, Body body) {
    own.started_ns[phase] = monotonic_ns();
    body();
    own.ended_ns[phase] = monotonic_ns();
  }

  // The sampling timer interrupts a sleep; only the deadline ends this one.
  static void wait(std::int64_t ms) {
    timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1'000'000;
    if (until.tv_nsec >= 1'000'000'000) {
      ++until.tv_sec;
      until.tv_nsec -= 1'000'000'000;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) continue;
  }

  // Everybody waits while worker 0 looks.
  void look(kit::Worker& worker, Look at) {
    session_.wait_for_all();
    if (worker.index == 0) {
      const std::uint64_t all = resident_.bytes(), bookkeeping = session_.bookkeeping_bytes();
      resident_at_[at] = all > bookkeeping ? all - bookkeeping : 0;
      for (std::size_t i = 0; i < session_.threads(); ++i) live_at_[at] += held(*session_.worker(i).table<Own>(), at);
    }
    session_.wait_for_all();
  }

  const Options& options_;
  kit::Session& session_;
  kit::ResidentMemory resident_;
  std::uint64_t resident_at_[kLooks] = {}, live_at_[kLooks] = {};
};

}  // namespace heapyard::factorial
