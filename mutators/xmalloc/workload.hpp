// SPDX-License-Identifier: Apache-2.0
// Some threads only allocate, others only release: every object is given back by a thread that did not take it.
//
// Behaves like xmalloc-test as it is described; the original was not looked at. A producer
// allocates a block for a batch and the batch's objects, writes the first bytes of each, and leaves the batch in a
// depot; a consumer takes it and releases the objects and the block. Producers and consumers may be of different
// numbers. With one thread, that thread does both in turn. Work is a number of batches; time only on request. Cost
// O(batches x objects) calls a producer. Bookkeeping: 8 bytes per batch that may wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../kit/session.hpp"
#include "depot.hpp"

namespace heapyard::xmalloc {

struct Options {
  kit::CommonOptions common;
  std::int64_t producers = 0;   // of the threads; 0: half
  std::int64_t size = 1024;     // bytes; -1: one of kSizes for each object
  std::int64_t objects = 4096;  // of a batch
  std::int64_t batches = 100;   // of a producer
  std::int64_t seconds = 0;     // 0: work is fixed by the batches
  std::int64_t waiting = 100;   // batches in the depot at most
  bool last_first = false;      // the depot gives out what came last
};

inline constexpr std::uint64_t kSizes[] = {8,   12,  16,  24,  32,  48,   64,   96,  128,
                                           192, 256, 384, 512, 768, 1024, 1536, 2048};
inline constexpr std::uint64_t kWritten = 128;  // first bytes of an object

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options), session_(session) {
    depot_.prepare(session.worker(0).arena, static_cast<std::size_t>(options.waiting), producers(options),
                   options.last_first);
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return static_cast<std::size_t>(options.waiting) * sizeof(void*);
  }
  static std::size_t producers(const Options& options) {
    if (options.producers) return static_cast<std::size_t>(options.producers);
    return std::max<std::size_t>(1, static_cast<std::size_t>(options.common.threads) / 2);
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    const bool alone = session_.threads() == 1;
    if (worker.index < producers(options_)) {
      const auto seconds = static_cast<std::uint64_t>(options_.seconds);
      const std::uint64_t deadline = seconds ? monotonic_ns() + seconds * 1'000'000'000u : 0;
      const auto batches = static_cast<std::uint64_t>(options_.batches);
      for (std::uint64_t i = 0; deadline ? monotonic_ns() < deadline : i < batches; ++i) {
        depot_.put(make(worker, heap, i));
        if (alone) discard(heap, depot_.take());
      }
      depot_.leave();
    } else {
      while (Batch* const batch = depot_.take()) discard(heap, batch);  // bound: what the producers bring
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

 private:
  // Lies on the heap under test, as in the original.
  struct Batch {
    std::uint64_t number;  // of the batch; its objects have the following ones
    void** objects() { return reinterpret_cast<void**>(this + 1); }
  };

  static constexpr unsigned kNumberBits = 44;  // numbers of one thread

  std::uint64_t count() const { return static_cast<std::uint64_t>(options_.objects); }

  template <class Operations>
  Batch* make(kit::Worker& worker, Operations& heap, std::uint64_t serial) {
    const std::uint64_t number = (static_cast<std::uint64_t>(worker.index) << kNumberBits) + serial * (count() + 1);
    auto* const batch = static_cast<Batch*>(heap.allocate(sizeof(Batch) + count() * sizeof(void*), number));
    batch->number = number;
    for (std::uint64_t i = 0; i < count(); ++i) {
      const std::uint64_t size = options_.size < 0 ? kSizes[worker.random.below(std::size(kSizes))]
                                                   : static_cast<std::uint64_t>(options_.size);
      void* const object = heap.allocate(size, number + 1 + i);
      std::memset(object, static_cast<int>(i & 0xff), std::min(size, kWritten));
      batch->objects()[i] = object;
    }
    return batch;
  }

  template <class Operations>
  void discard(Operations& heap, Batch* batch) {
    for (std::uint64_t i = 0; i < count(); ++i) {
      heap.saw(*static_cast<const std::uint8_t*>(batch->objects()[i]));
      heap.release(batch->objects()[i], batch->number + 1 + i);
    }
    heap.release(batch, batch->number);
  }

  const Options& options_;
  kit::Session& session_;
  Depot<Batch> depot_;
};

}  // namespace heapyard::xmalloc
