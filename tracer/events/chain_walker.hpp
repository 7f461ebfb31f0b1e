// Walks the stack, and remembers the walk before it: most of a chain is what it was.
//
// Idea: a step outwards depends on a frame's registers and on the words of the stack it reads. Where a walk meets a
// frame of the walk before it, with the same registers, the rest is the same if those words are: comparing them is
// cheaper than stepping, and by induction as right as stepping, since each word is compared before the next is looked
// at. (After memray's validated last trace, bloomberg/memray#1004, which compares return addresses only.) Hashes run
// from the outermost frame inwards, so that of the common part is known. Cost: O(frames), about 1 ns a frame of the
// common part. One per thread.
#pragma once

#include <cstdint>

#include "tracer/events/unwinder.hpp"

namespace heapyard::tracer {

class ChainWalker {
 public:
  static constexpr unsigned kMost = 256;

  struct Chain {
    std::uint64_t hash;
    ChainEnd end;
  };

  // The chain of callers from `at` on. `seed`: what is mixed into the hash. O(frames).
  template <class Learn>
  Chain walk(RuleCache& rules, Registers at, std::uintptr_t stack_end, unsigned limit, std::uint64_t seed,
             Learn learn) {
    Frame* const fresh = fresh_;
    unsigned inner = 0;
    int known = seed == seed_ ? static_cast<int>(count_) - 1 : -1;  // the remembered frame that may be met next
    bool interrupted = false, signals = false;
    ChainEnd end = end_;
    for (;;) {
      if (at.pc == 0) {
        end = ChainEnd::kWhole;
        known = -1;
        break;
      }
      while (known >= 0 && frames_[known].at.sp < at.sp) --known;
      if (known >= 0 && same(frames_[known].at, at) && !interrupted) {
        const int differs = first_difference(known);
        if (differs < 0) break;  // met: the rest is remembered
        known = differs;         // from there on outwards it may be met again
      }
      if (inner == limit || inner == kMost) return cut(fresh, inner, seed);
      Step taken{at, 0, 0};
      const Step::Kind kind = step(rules, at, interrupted, stack_end, taken, learn);
      Frame& frame = fresh[inner++];
      frame.at = at;
      if (kind == Step::kEnd || kind == Step::kTorn) {
        end = kind == Step::kEnd ? ChainEnd::kWhole : ChainEnd::kTorn;
        frame.fp_slot = frame.begin_slot = 0;
        known = -1;
        break;
      }
      frame.fp_slot = taken.fp_slot;
      frame.begin_slot = taken.begin_slot;
      interrupted = kind == Step::kSignal;
      signals |= interrupted;
      at = taken.next;
    }
    count_ = static_cast<unsigned>(known + 1);
    if (count_ + inner > limit || count_ + inner > kMost) {
      for (unsigned outer = count_; outer > 0 && inner < limit && inner < kMost; --outer)
        fresh[inner++] = frames_[outer - 1];
      return cut(fresh, inner, seed);
    }
    while (inner > 0) push(fresh[--inner], seed);
    seed_ = seed;
    end_ = end;
    const Chain found{count_ == 0 ? seed : frames_[count_ - 1].hash, end};
    if (signals) seed_ = 0;  // what lies under a signal is not on the stack as a step would find it
    return found;
  }

  // The chain just walked: its frames, innermost first.
  unsigned frames() const { return count_; }
  std::uintptr_t frame(unsigned index) const { return frames_[count_ - 1 - index].at.pc; }

 private:
  struct Frame {
    Registers at;
    std::uintptr_t fp_slot, begin_slot;
    std::uint64_t hash;  // of this frame and all outside it
  };

  static bool same(const Registers& a, const Registers& b) { return a.sp == b.sp && a.pc == b.pc && a.fp == b.fp; }
  static std::uintptr_t load(std::uintptr_t address) { return *reinterpret_cast<const std::uintptr_t*>(address); }

  // The outermost frame that a comparison from `from` on can no longer reach, or -1: all is as it was.
  int first_difference(int from) const {
    for (int index = from; index > 0; --index) {
      const Frame& inside = frames_[index];
      const Registers& outside = frames_[index - 1].at;
      if (inside.begin_slot != 0 && load(inside.begin_slot) != outside.sp) return index - 1;
      if (load(outside.sp - 8) != outside.pc) return index - 1;
      if (inside.fp_slot != 0 && load(inside.fp_slot) != outside.fp) return index - 1;
    }
    return -1;
  }

  void push(const Frame& frame, std::uint64_t seed) {
    std::uint64_t hash = count_ == 0 ? seed : frames_[count_ - 1].hash;
    hash = (hash ^ frame.at.pc) * 0xbf58476d1ce4e5b9u;
    frames_[count_] = frame;
    frames_[count_++].hash = hash ^ hash >> 29;
  }

  // A chain longer than the limit: its inner frames, and nothing to remember.
  Chain cut(const Frame* inner, unsigned count, std::uint64_t seed) {
    count_ = 0;
    while (count > 0) push(inner[--count], seed);
    seed_ = 0;
    return {frames_[count_ - 1].hash, ChainEnd::kCut};
  }

  std::uint64_t seed_ = 0;  // of what is remembered; 0: nothing is
  unsigned count_ = 0;
  ChainEnd end_ = ChainEnd::kWhole;
  Frame frames_[kMost];  // outermost first
  Frame fresh_[kMost];   // of the walk at hand, innermost first; here, as a thread's stack may be small
};

}  // namespace heapyard::tracer
