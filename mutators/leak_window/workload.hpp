// SPDX-License-Identifier: Apache-2.0
// A window of short-lived objects that slides on while a few of them stay: what makes heaps grow without a leak.
//
// The workload holds the newest `window` bytes, whatever their number. Of every hundred objects a few are survivors,
// which live until `keep` bytes came after them. Sizes drift: each epoch has an octave of its own, so the holes between
// the survivors of one epoch are too small, or of the wrong class, for the next. What the workload holds stays the
// same. What the process holds beyond it is fragmentation. Robson ("Bounds for some functions concerning dynamic
// storage allocation", JACM 1974) bounds it by a factor of the logarithm of the largest size over the smallest.
// Cost O(epochs x turns x window / size) calls a thread. Bookkeeping: 16 bytes per object held at most.
#pragma once

#include <cstdint>

#include "../kit/octaves.hpp"
#include "../kit/session.hpp"
#include "fifo.hpp"

namespace heapyard::leak_window {

enum class Law { kDrift, kMixed };

struct Options {
  kit::CommonOptions common;
  Law law = Law::kDrift;
  std::int64_t window = 8 << 20;  // bytes of short-lived objects of a thread
  std::int64_t keep = 8 << 20;    // bytes of survivors of a thread, at most
  std::int64_t survivors = 5;     // percent of the objects
  std::int64_t epochs = 16;       // each with sizes of its own
  std::int64_t turns = 2;         // windows allocated in an epoch
  std::int64_t min_size = 16;     // bytes
  std::int64_t max_size = 4096;   // bytes
};

inline constexpr std::uint64_t kSurvivor = std::uint64_t{1} << 62;  // numbers of survivors begin here

class Workload {
 public:
  Workload(const Options& options, kit::Session& session)
      : options_(options),
        sizes_(static_cast<std::uint64_t>(options.min_size), static_cast<std::uint64_t>(options.max_size)) {
    const auto least = static_cast<std::uint64_t>(options.min_size);
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Own>(1);
      Own& own = *new (worker.table<Own>()) Own;
      own.passing.prepare(worker.arena, static_cast<std::uint64_t>(options.window), least, 0);
      own.staying.prepare(worker.arena, static_cast<std::uint64_t>(options.keep), least, kSurvivor);
    }
  }
  static std::size_t bytes_per_worker(const Options& options) {
    const auto least = static_cast<std::uint64_t>(options.min_size);
    return sizeof(Own) + Fifo::bytes(static_cast<std::uint64_t>(options.window), least) +
           Fifo::bytes(static_cast<std::uint64_t>(options.keep), least);
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    const auto volume = static_cast<std::uint64_t>(options_.window * options_.turns);
    for (std::uint64_t epoch = 0; epoch < static_cast<std::uint64_t>(options_.epochs); ++epoch) {
      for (std::uint64_t allocated = 0; allocated < volume;) {
        const std::uint64_t size = options_.law == Law::kDrift ? sizes_.draw_of(epoch % sizes_.count(), worker.random)
                                                               : sizes_.draw(worker.random);
        const bool stays = worker.random.percent(static_cast<std::uint64_t>(options_.survivors));
        (stays ? own.staying : own.passing).add(size, heap);
        allocated += size;
      }
    }
  }

  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    worker.table<Own>()->passing.drain(heap);
    worker.table<Own>()->staying.drain(heap);
  }

 private:
  struct Own {
    Fifo passing, staying;
  };

  const Options& options_;
  kit::Octaves sizes_;
};

}  // namespace heapyard::leak_window
