// SPDX-License-Identifier: Apache-2.0
// Reads all rings of a program as one stream, in the order of the records' stamps.
//
// Idea: a heap of cursors, one per ring; the ring with the oldest event goes first, for as long as it stays the oldest.
// Records are taken up to the stamp at which the rings were looked at, so that what led to an event comes before it.
// What has no stamp (a chain, a module, whose records these are) is taken on the way to the next event. Of a ring that
// the program has written over the rest is left out, and counted. Cost: O(words), and O(log rings) where the ring
// changes. Threads: the collector's only; a program's thread may write on meanwhile.
//
// A sink is told: use_rings(count), knows_a_thread(), thread(ring, owner), chain(ring, words), module(words),
// owned(kind, owned, stamp), allocation(ring, address, stamp, size, drawn, chain), release(ring, address, stamp, move),
// stay(ring, address), mark(words), mapping(address, bytes, chain), unmapping(address, bytes).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tracer/session/layout.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

// What is to be read of a ring.
struct RingCursor {
  std::uint64_t at, head;
  std::uint32_t ring;
  const std::uint64_t* words;  // of the ring
  std::uint64_t mask;
  std::uint64_t count = 0;  // words of the record at hand, an event

  const std::uint64_t* record() const { return words + (at & mask); }
  // Words of the record at hand. 0: none, or no whole one, as where the program has written over the ring.
  std::uint64_t whole() const {
    const std::uint64_t count = at == head ? 0 : record_words(*record());
    return count <= head - at && (at & mask) + count <= mask + 1 ? count : 0;
  }
};

// How a block came to be recorded: bytes it was counted with, and the interval; 0: every one is. And how many bytes
// beyond those asked for may be used.
struct Drawn {
  std::uint64_t bytes;
  unsigned log2_interval;
  std::uint64_t beyond;
};

class RingMerger {
 public:
  explicit RingMerger(const Session& session)
      : session_(session), start_stamp_(session.header().start_stamp), most_(session.header().rings) {}

  // Takes what has a stamp up to `limit`; true if there was something.
  template <class Sink>
  bool drain(std::uint64_t limit, Sink& sink);

  std::uint32_t in_use() {
    const std::uint32_t used = std::min(session_.header().highest_ring.load(std::memory_order_acquire), most_);
    if (used > rings_.size()) rings_.resize(used);
    return used;
  }
  std::uint32_t most() const { return most_; }
  std::uint64_t events() const { return events_; }
  // How often the rest of a ring made no sense.
  std::uint64_t torn() const { return torn_; }

 private:
  struct RingState {
    std::uint64_t scanned = 0;  // words up to which modules are known
    std::uint64_t more = 0;     // upper bits of the next size
    std::uint64_t since = 0;    // stamp of the brief events, counted from the session's
  };
  struct Head {
    std::uint64_t stamp;
    std::size_t cursor;
    bool operator<(const Head& other) const { return stamp > other.stamp; }
  };

  // Nothing of one that the program has written over.
  RingCursor cursor_of(std::uint32_t index) const {
    const std::uint64_t words = session_.ring_bytes() / 8;
    const std::uint64_t tail = session_.ring(index).tail.load(std::memory_order_relaxed);
    const std::uint64_t head = session_.ring(index).head.load(std::memory_order_acquire);
    return {head - tail <= words ? tail : head, head, index, session_.words(index), words - 1};
  }
  void read_up_to(const RingCursor& cursor) const {
    session_.ring(cursor.ring).tail.store(cursor.at, std::memory_order_release);
  }
  // False: there is nothing to read in any ring.
  bool find_cursors(std::uint32_t rings) {
    cursors_.clear();
    for (std::uint32_t index = 0; index < rings; ++index) {
      const RingCursor cursor = cursor_of(index);
      if (cursor.head == session_.ring(index).tail.load(std::memory_order_relaxed)) continue;
      torn_ += cursor.at == cursor.head;
      cursors_.push_back(cursor);
    }
    return !cursors_.empty();
  }
  template <class Sink>
  void begin_thread(std::uint32_t ring, std::uint64_t owner, Sink& sink) {
    rings_[ring].more = rings_[ring].since = 0;
    sink.thread(ring, owner);
  }
  template <class Sink>
  void take_module(const std::uint64_t* words, Sink& sink) {
    ++modules_seen_;
    sink.module(words);
  }
  template <class Sink>
  void look_for_modules(Sink& sink);
  template <class Sink>
  std::uint64_t next_stamp(RingCursor& cursor, Sink& sink);
  template <class Sink>
  void take(RingCursor& cursor, Sink& sink);
  template <class Sink>
  void take_of_address(const RingCursor& cursor, Kind kind, Sink& sink);

  Session session_;
  std::uint64_t start_stamp_;  // as the header said at first: the program may write over it
  std::uint32_t most_;
  std::vector<RingState> rings_;
  std::vector<RingCursor> cursors_;
  std::uint64_t torn_ = 0, events_ = 0;
  std::uint32_t modules_seen_ = 0;
};

// A chain in one ring may lie in a module whose record is in another ring, published earlier but behind the heads that
// this round has read. The counter tells; then every ring is looked through for modules first.
template <class Sink>
void RingMerger::look_for_modules(Sink& sink) {
  if (session_.header().modules_sent.load(std::memory_order_acquire) == modules_seen_) return;
  const std::uint32_t rings = in_use();
  for (std::uint32_t index = 0; index < rings; ++index) {
    RingCursor cursor = cursor_of(index);
    cursor.at = std::min(std::max(cursor.at, rings_[index].scanned), cursor.head);
    for (; const std::uint64_t words = cursor.whole(); cursor.at += words) {
      if (kind_of(*cursor.record()) == Kind::kModule) take_module(cursor.record(), sink);
    }
    rings_[index].scanned = cursor.head;
  }
}

// The stamp of the cursor's next event; what comes before it and has none is taken. 0: nothing is left.
template <class Sink>
inline std::uint64_t RingMerger::next_stamp(RingCursor& cursor, Sink& sink) {
  while (const std::uint64_t words = cursor.whole()) {
    const std::uint64_t* at = cursor.record();
    if (is_brief(at[0])) [[likely]] {
      cursor.count = words;
      return (start_stamp_ + rings_[cursor.ring].since) | 1;
    }
    const Kind kind = kind_of(at[0]);
    if (kind >= Kind::kOwned && kind <= Kind::kBack) [[likely]] {
      cursor.count = words;
      return (start_stamp_ + (at[0] & kAddressBits)) | 1;
    }
    switch (kind) {
      case Kind::kPad:
        break;
      case Kind::kMore:
        rings_[cursor.ring].more = at[0] & kAddressBits;
        break;
      case Kind::kSince:
        rings_[cursor.ring].since = at[0] & kAddressBits;
        break;
      case Kind::kChain:
        sink.chain(cursor.ring, at);
        break;
      case Kind::kScript:
        sink.script(at);
        break;
      case Kind::kThread:
        begin_thread(cursor.ring, at[0] & kAddressBits, sink);
        break;
      case Kind::kModule:
        if (cursor.at >= rings_[cursor.ring].scanned) take_module(at, sink);
        break;
      default:
        cursor.count = words;
        return at[1] | 1;
    }
    cursor.at += words;
  }
  torn_ += cursor.at != cursor.head;
  cursor.at = cursor.head;
  return 0;
}

// The event at hand, which next_stamp() has found.
template <class Sink>
inline void RingMerger::take(RingCursor& cursor, Sink& sink) {
  const std::uint64_t* at = cursor.record();
  const Kind kind = is_brief(at[0]) ? kind_of_brief(at[0]) : kind_of(at[0]);
  ++events_;
  if (kind >= Kind::kOwned) [[likely]] {  // next_stamp() has seen to the rest
    RingState& ring = rings_[cursor.ring];
    std::uint64_t since_start = ring.since;
    Owned event;
    if (is_brief(at[0])) [[likely]] {
      event = owned_of_brief(at[0]);
    } else {
      event = Owned::of(at[1]);
      event.size |= std::exchange(ring.more, 0) << Owner::kSizeBits;
      since_start = at[0] & kAddressBits;
    }
    sink.owned(kind, event, start_stamp_ + since_start);
  } else {
    take_of_address(cursor, kind, sink);
  }
  cursor.at += cursor.count;
}

template <class Sink>
[[gnu::always_inline]] inline void RingMerger::take_of_address(const RingCursor& cursor, Kind kind, Sink& sink) {
  const std::uint64_t* at = cursor.record();
  const std::uint64_t address = at[0] & kAddressBits;
  switch (kind) {
    case Kind::kAlloc:
    case Kind::kSample: {
      const bool of_class = kind == Kind::kSample;
      const std::uint64_t size = at[2] & kAddressBits, drawn_by = of_class ? at[4] : size;
      const std::uint64_t beyond = !of_class ? at[3] >> 32 : drawn_by > size ? drawn_by - size : 0;
      const Drawn drawn{drawn_by, static_cast<unsigned>(at[2] >> 56 & 63), beyond};
      sink.allocation(cursor.ring, address, at[1], size, drawn, at[3] & 0xffffffff);
      break;
    }
    case Kind::kFree:
    case Kind::kMove:
      sink.release(cursor.ring, address, at[1], kind == Kind::kMove);
      break;
    case Kind::kStay:
      sink.stay(cursor.ring, address);
      break;
    case Kind::kMark:
      sink.mark(at);
      break;
    case Kind::kMapped:
      sink.mapping(address, at[2], at[3]);
      break;
    case Kind::kUnmapped:
      sink.unmapping(address, at[2]);
      break;
    default:  // next_stamp() has seen to it
      break;
  }
}

template <class Sink>
bool RingMerger::drain(std::uint64_t limit, Sink& sink) {
  session_.header().bell.expect();
  const std::uint32_t rings = in_use();
  sink.use_rings(rings);
  if (!find_cursors(rings)) return false;
  look_for_modules(sink);
  std::vector<Head> heads;
  for (std::size_t index = 0; index < cursors_.size(); ++index) {
    if (const std::uint64_t next = next_stamp(cursors_[index], sink))
      heads.push_back({next, index});
    else
      read_up_to(cursors_[index]);
  }
  if (!heads.empty() && !sink.knows_a_thread())  // the program has written over who it is
    begin_thread(cursors_[heads[0].cursor].ring, 0, sink);
  std::make_heap(heads.begin(), heads.end());
  bool taken_any = false;
  while (!heads.empty() && heads.front().stamp <= limit) {
    taken_any = true;
    std::pop_heap(heads.begin(), heads.end());
    Head head = heads.back();
    heads.pop_back();
    RingCursor& cursor = cursors_[head.cursor];
    const std::uint64_t other = heads.empty() ? limit : std::min(limit, heads.front().stamp);
    unsigned taken = 0;
    do {
      take(cursor, sink);
      if (++taken % 512 == 0) read_up_to(cursor);  // the program may be waiting for room
      head.stamp = next_stamp(cursor, sink);
    } while (head.stamp != 0 && head.stamp <= other);
    read_up_to(cursor);
    if (head.stamp != 0) {
      heads.push_back(head);
      std::push_heap(heads.begin(), heads.end());
    }
  }
  for (const Head& head : heads) read_up_to(cursors_[head.cursor]);
  return taken_any;
}

}  // namespace heapyard::tracer
