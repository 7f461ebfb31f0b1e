// SPDX-License-Identifier: Apache-2.0
// The plain case: each object is made by one thread and released by another, in order, a bounded number on their way.
//
// Ring: every thread produces for the next one and consumes from the one before. Pair: even threads only produce, odd
// ones only consume. Cost O(objects) calls. Bookkeeping: 8 bytes per object on its way.
#pragma once

#include <sched.h>

#include <cstdint>

#include "../kit/spsc_ring.hpp"
#include "objects.hpp"

namespace heapyard::producer_consumer {

class Pipes {
 public:
  Pipes(const Options& options, const Sizes& sizes, kit::Session& session)
      : options_(options), sizes_(sizes), session_(session) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Pipe>(1);
      (new (worker.table<Pipe>()) Pipe)->prepare(worker.arena, static_cast<std::size_t>(options.ring));
    }
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Pipe) + static_cast<std::size_t>(options.ring) * sizeof(void*) + 4 * kit::kCacheLine;
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    const std::size_t n = session_.threads(), self = worker.index;
    const bool ring = options_.mode == Mode::kRing;
    const auto objects = static_cast<std::uint64_t>(options_.objects);
    const std::size_t source = ring ? (self + n - 1) % n : self - 1;
    const std::uint64_t to_make = ring || self % 2 == 0 ? objects : 0;
    const std::uint64_t to_take = ring || self % 2 == 1 ? objects : 0;
    Pipe& out = *session_.worker((self + 1) % n).table<Pipe>();
    Pipe& in = *worker.table<Pipe>();
    Maker maker(options_, sizes_, worker.random);
    void* ready = nullptr;  // made, not yet sent
    std::uint64_t sent = 0, taken = 0;
    while (sent < to_make || taken < to_take) {
      const std::uint64_t before = sent + taken;
      while (sent < to_make) {  // bound: the ring fills up
        if (!ready) ready = maker.make(heap, number(self, sent));
        if (!out.push(ready)) break;
        ready = nullptr;
        ++sent;
      }
      void* object;
      while (taken < to_take && in.pop(object)) discard(heap, object, number(source, taken++));
      if (sent + taken == before) sched_yield();
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

 private:
  using Pipe = kit::SpscRing<void*>;

  static std::uint64_t number(std::size_t producer, std::uint64_t serial) {
    return (static_cast<std::uint64_t>(producer) << 44) + serial;
  }

  const Options& options_;
  const Sizes& sizes_;
  kit::Session& session_;
};

}  // namespace heapyard::producer_consumer
