// SPDX-License-Identifier: Apache-2.0
// Buffers that grow by realloc until they have their size, many at a time, as vectors and strings do.
//
// A vector multiplies its capacity whenever it is full: few calls, each copying much if the block moves. A string makes
// room for the next piece and no more: many calls, nearly all of which a good allocator answers in place. Buffers grow
// in turn, so that each has a neighbour that grows too, or one after the other. Every byte is written when it is
// appended and read before the buffer is released, so that a realloc that loses bytes is found out.
// Cost: a vector of n bytes takes O(log n) calls, a string O(n / piece). Bookkeeping: 40 bytes per buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../kit/octaves.hpp"
#include "../kit/session.hpp"

namespace heapyard::realloc_growth {

enum class Mode { kVector, kString, kMixed };

struct Options {
  kit::CommonOptions common;
  Mode mode = Mode::kMixed;
  std::int64_t buffers = 256;        // of a thread, at a time
  std::int64_t rounds = 50;          // generations of buffers
  std::int64_t min_size = 64;        // bytes, of a buffer at its end
  std::int64_t max_size = 64 << 10;  // bytes
  std::int64_t growth = 200;         // percent of the old capacity, vectors
  std::int64_t first = 64;           // bytes, first capacity of a vector
  std::int64_t piece = 64;           // bytes, longest piece appended to a string
  bool apart = false;                // one buffer after the other
  bool shrink = false;               // vectors give back what they have too much at their end
};

class Workload {
 public:
  Workload(const Options& options, kit::Session& session)
      : options_(options),
        session_(session),
        sizes_(static_cast<std::uint64_t>(options.min_size), static_cast<std::uint64_t>(options.max_size)) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      session.worker(i).make_table<Own>(1);
      session.worker(i).table<Own>()->buffers = session.worker(i).arena.take<Buffer>(buffers());
    }
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Own) + static_cast<std::size_t>(options.buffers) * sizeof(Buffer);
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (std::uint64_t i = 0; i < buffers(); ++i) own.buffers[i] = {nullptr, 0, 0, sizes_.draw(worker.random), 0};
      if (options_.apart) {
        for (std::uint64_t i = 0; i < buffers(); ++i)
          while (append(worker, own, i, heap)) continue;
      } else {
        for (bool growing = true; growing;) {  // bound: pieces of the longest buffer
          growing = false;
          for (std::uint64_t i = 0; i < buffers(); ++i) growing |= append(worker, own, i, heap);
        }
      }
      for (std::uint64_t i = 0; i < buffers(); ++i) discard(heap, own.buffers[i], i);
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

  // Share of the reallocations that moved their block. O(threads).
  double moved() const {
    std::uint64_t moved = 0;
    for (std::size_t i = 0; i < session_.threads(); ++i) moved += session_.worker(i).table<Own>()->moved;
    return static_cast<double>(moved) / static_cast<double>(session_.total(kit::Phase::kMeasured).reallocations);
  }

 private:
  struct Buffer {
    std::uint8_t* bytes;
    std::uint64_t length;    // bytes written
    std::uint64_t capacity;  // bytes allocated
    std::uint64_t target;    // length at the end
    std::uint64_t pieces;    // appended so far
  };
  struct Own {
    Buffer* buffers;
    std::uint64_t moved;
  };

  std::uint64_t buffers() const { return static_cast<std::uint64_t>(options_.buffers); }
  // Of mixed buffers, the even ones are vectors.
  bool is_vector(std::uint64_t index) const {
    return options_.mode == Mode::kVector || (options_.mode == Mode::kMixed && index % 2 == 0);
  }

  // One piece more for a buffer; false when it has its size.
  template <class Operations>
  bool append(kit::Worker& worker, Own& own, std::uint64_t index, Operations& heap) {
    Buffer& buffer = own.buffers[index];
    if (buffer.length == buffer.target) return false;
    std::uint64_t capacity, length;
    if (is_vector(index)) {
      const std::uint64_t grown = buffer.capacity * static_cast<std::uint64_t>(options_.growth) / 100;
      capacity = std::max({static_cast<std::uint64_t>(options_.first), buffer.capacity + 1, grown});
      length = std::min(capacity, buffer.target);
    } else {
      const std::uint64_t piece = worker.random.between(1, static_cast<std::uint64_t>(options_.piece));
      capacity = length = std::min(buffer.length + piece, buffer.target);
    }
    resize(own, buffer, index, capacity, heap);
    std::memset(buffer.bytes + buffer.length, static_cast<int>(buffer.pieces++ & 0xff), length - buffer.length);
    buffer.length = length;
    if (length < buffer.target) return true;
    if (options_.shrink && capacity > length) resize(own, buffer, index, length, heap);
    return false;
  }

  template <class Operations>
  void resize(Own& own, Buffer& buffer, std::uint64_t index, std::uint64_t capacity, Operations& heap) {
    auto* const bytes = static_cast<std::uint8_t*>(heap.reallocate(buffer.bytes, capacity, index));
    own.moved += buffer.bytes && bytes != buffer.bytes;
    heap.drop(buffer.capacity);
    heap.hold(capacity);
    buffer.bytes = bytes;
    buffer.capacity = capacity;
  }

  template <class Operations>
  void discard(Operations& heap, const Buffer& buffer, std::uint64_t index) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < buffer.length; ++i) sum += buffer.bytes[i];
    heap.saw(sum);
    heap.drop(buffer.capacity);
    heap.release(buffer.bytes, index);
  }

  const Options& options_;
  kit::Session& session_;
  kit::Octaves sizes_;
};

}  // namespace heapyard::realloc_growth
