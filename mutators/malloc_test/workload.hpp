// SPDX-License-Identifier: Apache-2.0
// Objects of one size: taken and given back at once, in long rows, or handed down a chain of threads.
//
// After malloc-test of Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000
// annual technical conference). Every thread works for itself, so the work grows with the threads.
//   pairs  a release right after each allocation: the fast path of an allocator and nothing else
//   rows   all objects of a thread are allocated, then released in order: the form that Hoard's copy has
//   chain  the simplified larson: the first thread allocates the slots of all; each thread replaces as many random
//          objects of its slice as it has slots, and a new thread takes its place
// Cost O(iterations) calls a thread, in chain O(generations x objects). Bookkeeping: 8 bytes per object held.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "../kit/session.hpp"
#include "../kit/successors.hpp"

namespace heapyard::malloc_test {

enum class Mode { kPairs, kRows, kChain };

struct Options {
  kit::CommonOptions common;
  Mode mode = Mode::kPairs;
  std::int64_t size = 512;              // bytes
  std::int64_t iterations = 1'000'000;  // pairs and rows: objects of a thread
  std::int64_t objects = 10'000;        // chain: slots of a thread
  std::int64_t generations = 10;        // chain: threads that follow each other on one slice
  bool write = false;                   // objects are written; else, as published, left alone
};

class Workload {
 public:
  Workload(const Options& options, kit::Session& session) : options_(options), session_(session) {
    for (std::size_t i = 0; i < session.threads(); ++i)
      if (slots(options)) session.worker(i).make_table<void*>(slots(options));
  }
  static std::uint64_t slots(const Options& options) {
    if (options.mode == Mode::kPairs) return 0;
    return static_cast<std::uint64_t>(options.mode == Mode::kRows ? options.iterations : options.objects);
  }

  template <class Operations>
  void before(kit::Worker& worker, Operations& heap) {
    if (options_.mode != Mode::kChain || worker.index != 0) return;
    for (std::uint64_t i = 0; i < slots(options_) * session_.threads(); ++i) slot(i) = make(heap, i);
  }

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    if (options_.mode == Mode::kPairs) return pairs(heap);
    if (options_.mode == Mode::kRows) return rows(worker.table<void*>(), heap);
    for (std::int64_t made = 0; made < options_.generations; ++made)
      successors_.run(worker, [&] { replace(worker, heap); });
  }

  template <class Operations>
  void after(kit::Worker& worker, Operations& heap) {
    if (options_.mode != Mode::kChain) return;
    for (std::uint64_t i = 0; i < slots(options_); ++i) {
      const std::uint64_t object = worker.index * slots(options_) + i;
      heap.release(slot(object), object);
    }
  }

  // Of the threads' own times, in milliseconds: their mean, and their standard deviation (0 for one thread).
  // O(threads).
  double time_mean() const { return session_.thread_seconds() * 1e3 / static_cast<double>(session_.threads()); }
  double time_deviation() const {
    const std::size_t n = session_.threads();
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const kit::Worker& worker = session_.worker(i);
      const double off = static_cast<double>(worker.ended_ns - worker.started_ns) * 1e-6 - time_mean();
      squares += off * off;
    }
    return n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
  }

 private:
  template <class Operations>
  void pairs(Operations& heap) {
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(options_.iterations); ++i) heap.release(make(heap, i), i);
  }

  template <class Operations>
  void rows(void** objects, Operations& heap) {
    const auto count = static_cast<std::uint64_t>(options_.iterations);
    for (std::uint64_t i = 0; i < count; ++i) objects[i] = make(heap, i);
    for (std::uint64_t i = 0; i < count; ++i) heap.release(objects[i], i);
  }

  // The life of one thread of a chain.
  template <class Operations>
  void replace(kit::Worker& worker, Operations& heap) {
    const std::uint64_t count = slots(options_);
    void** const objects = worker.table<void*>();
    Random random = worker.random;
    for (std::uint64_t step = 0; step < count; ++step) {
      const std::uint64_t at = random.below(count), object = worker.index * count + at;
      heap.release(objects[at], object);
      objects[at] = make(heap, object);
    }
    worker.random = random;
  }

  template <class Operations>
  void* make(Operations& heap, std::uint64_t object) {
    const auto size = static_cast<std::uint64_t>(options_.size);
    void* const made = heap.allocate(size, object);
    if (options_.write) kit::write_all(made, size, object);
    return made;
  }

  void*& slot(std::uint64_t object) {
    return session_.worker(object / slots(options_)).table<void*>()[object % slots(options_)];
  }

  const Options& options_;
  kit::Session& session_;
  kit::Successors successors_;
};

}  // namespace heapyard::malloc_test
