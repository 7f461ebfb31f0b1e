// SPDX-License-Identifier: Apache-2.0
// One thread writes, the collector reads: a ring of words whose records never wrap.
//
// Idea: the producer remembers how many words it may write on, and looks at the consumer's index again only there (Lee
// et al., "Lock-free single-producer single-consumer queues"; the usual Lamport ring): at half of the ring, where it
// wakes the consumer, and at the end of it. Cost: O(words) per record, one release store to publish. A record that does
// not fit before the end leaves a pad and begins at the start.
#pragma once

#include <algorithm>
#include <cstring>

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(Ring& ring, std::uint64_t* words, std::size_t ring_bytes, Bell& bell)
      : ring_(&ring),
        bell_(&bell),
        words_(words),
        mask_(ring_bytes / 8 - 1),
        head_(ring.head.load(std::memory_order_relaxed)) {}

  explicit operator bool() const { return ring_ != nullptr; }
  Ring* ring() const { return ring_; }
  std::size_t capacity() const { return mask_ + 1; }

  // Room for `count` words in one piece, or nullptr: full for now.
  std::uint64_t* reserve(std::size_t count) {
    std::uint64_t* at = reserve_at_once(count);
    return at != nullptr ? at : find_room(count);
  }
  // The same, but nullptr too where the consumer's index has to be looked at.
  std::uint64_t* reserve_at_once(std::size_t count) const {
    return count <= left_ ? words_ + (head_ & mask_) : nullptr;
  }

  // What was reserved is written.
  void publish(std::size_t count) {
    left_ -= count;
    head_ += count;
    ring_->head.store(head_, std::memory_order_release);
  }

 private:
  [[gnu::noinline, gnu::cold]] std::uint64_t* find_room(std::size_t count) {
    std::uint64_t to_end = capacity() - (head_ & mask_);
    const std::uint64_t needed = count <= to_end ? count : to_end + count;
    const std::uint64_t tail = ring_->tail.load(std::memory_order_acquire);
    const std::uint64_t used = head_ + needed - tail;
    const bool much = used > capacity() / 2;
    if (much) bell_->ring();
    left_ = 0;
    if (used > capacity()) return nullptr;
    if (count > to_end) {
      words_[head_ & mask_] = first_word(Kind::kPad, to_end);
      head_ += to_end;
      to_end = capacity();
    }
    left_ = std::min(to_end, tail + (much ? capacity() : capacity() / 2) - head_);
    return words_ + (head_ & mask_);
  }

  Ring* ring_ = nullptr;
  Bell* bell_ = nullptr;
  std::uint64_t* words_ = nullptr;
  std::uint64_t left_ = 0;  // words from head_ on, in one piece, until the ring is looked at again
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;  // not beside left_: a compiler would load both as one, soon after they were stored as two
};

}  // namespace heapyard::tracer
