// One thread writes, the collector reads: a ring of words whose records never wrap.
//
// Idea: the producer keeps a copy of the consumer's index and looks again only when the ring seems full (Lee et al.,
// "Lock-free single-producer single-consumer queues"; the usual Lamport ring). Cost: O(words) per record, one release
// store to publish. A record that does not fit before the end leaves a pad and begins at the start.
#pragma once

#include <cstring>

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

inline constexpr std::uint64_t kAddressBits = (std::uint64_t{1} << 56) - 1;

constexpr std::uint64_t first_word(Kind kind, std::uint64_t rest) {
  return static_cast<std::uint64_t>(kind) << 56 | (rest & kAddressBits);
}

class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(Ring& ring, std::uint64_t* words, std::size_t ring_bytes)
      : ring_(&ring),
        words_(words),
        mask_(ring_bytes / 8 - 1),
        head_(ring.head.load(std::memory_order_relaxed)),
        tail_(ring.tail.load(std::memory_order_acquire)) {}

  explicit operator bool() const { return ring_ != nullptr; }
  Ring* ring() const { return ring_; }
  std::size_t capacity() const { return mask_ + 1; }

  // Room for `count` words in one piece, or nullptr: full for now.
  std::uint64_t* reserve(std::size_t count) {
    const std::size_t place = head_ & mask_;
    const std::size_t to_end = mask_ + 1 - place;
    const std::size_t needed = count <= to_end ? count : to_end + count;
    if (head_ + needed - tail_ > mask_ + 1) {
      tail_ = ring_->tail.load(std::memory_order_acquire);
      if (head_ + needed - tail_ > mask_ + 1) return nullptr;
    }
    if (count <= to_end) return words_ + place;
    words_[place] = first_word(Kind::kPad, to_end);
    head_ += to_end;
    return words_;
  }

  // What reserve() gave is written.
  void publish(std::size_t count) {
    head_ += count;
    ring_->head.store(head_, std::memory_order_release);
  }

 private:
  Ring* ring_ = nullptr;
  std::uint64_t* words_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace heapyard::tracer
