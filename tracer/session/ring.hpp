// One thread writes, the collector reads: a ring of words whose records never wrap.
//
// Idea: the producer remembers how far it may go, and looks at the consumer's index again only there (Lee et al.,
// "Lock-free single-producer single-consumer queues"; the usual Lamport ring): at half of the ring, where it wakes the
// consumer, and at the end of it. Cost: O(words) per record, one release store to publish. A record that does not fit
// before the end leaves a pad and begins at the start.
#pragma once

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
        head_(ring.head.load(std::memory_order_relaxed)),
        limit_(head_) {}

  explicit operator bool() const { return ring_ != nullptr; }
  Ring* ring() const { return ring_; }
  std::size_t capacity() const { return mask_ + 1; }

  // Room for `count` words in one piece, or nullptr: full for now.
  std::uint64_t* reserve(std::size_t count) {
    const std::size_t place = head_ & mask_;
    const std::size_t to_end = mask_ + 1 - place;
    const std::size_t needed = count <= to_end ? count : to_end + count;
    if (head_ + needed > limit_ && !find_room(needed)) [[unlikely]]
      return nullptr;
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
  [[gnu::noinline, gnu::cold]] bool find_room(std::size_t needed) {
    const std::uint64_t tail = ring_->tail.load(std::memory_order_acquire);
    const std::uint64_t used = head_ + needed - tail;
    const bool much = used > capacity() / 2;
    limit_ = tail + (much ? capacity() : capacity() / 2);
    if (much) bell_->ring();
    return used <= capacity();
  }

  Ring* ring_ = nullptr;
  Bell* bell_ = nullptr;
  std::uint64_t* words_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t limit_ = 0;  // of head_, until the ring is looked at again
};

}  // namespace heapyard::tracer
