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
    const unsigned most = limit < kMost ? limit : kMost;
    unsigned inner = 0;
    frames_[0].at.sp = ~std::uintptr_t{0};                      // lies outside of every frame: no walk goes beyond
    const Frame* known = &frames_[seed == seed_ ? count_ : 0];  // the remembered frame that may be met next
    bool interrupted = false, signals = false;
    ChainEnd end = end_;
    for (;;) {
      if (at.pc == 0) {
        end = ChainEnd::kWhole;
        known = frames_;
        break;
      }
      while (known->at.sp < at.sp) --known;
      if (same(known->at, at) && !interrupted) {
        const Frame* differs = first_difference(known);
        if (differs == nullptr) break;  // met: the rest is remembered
        known = differs;                // from there on outwards it may be met again
      }
      if (inner == most) return cut(inner, seed);
      Step taken{at, 0, 0};
      const Step::Kind kind = step(rules, at, interrupted, stack_end, taken, learn);
      Fresh& frame = fresh_[inner++];
      frame = {at, taken.fp_slot, taken.begin_slot};
      if (kind == Step::kEnd || kind == Step::kTorn) {
        end = kind == Step::kEnd ? ChainEnd::kWhole : ChainEnd::kTorn;
        known = frames_;
        break;
      }
      interrupted = kind == Step::kSignal;
      signals |= interrupted;
      at = taken.next;
    }
    count_ = static_cast<unsigned>(known - frames_);
    if (count_ + inner > most) {
      for (unsigned outer = count_; outer > 0 && inner < most; --outer) fresh_[inner++] = {frames_[outer].at, 0, 0};
      return cut(inner, seed);
    }
    while (inner > 0) push(fresh_[--inner], seed);
    seed_ = signals ? 0 : seed;  // what lies under a signal is not on the stack as a step would find it
    end_ = end;
    return {count_ == 0 ? seed : frames_[count_].hash, end};
  }

  // The chain just walked: its frames, innermost first.
  unsigned frames() const { return count_; }
  std::uintptr_t frame(unsigned index) const { return frames_[count_ - index].at.pc; }

 private:
  struct Frame {
    Registers at;
    std::uint64_t hash;    // of this frame and all outside it
    std::uint32_t checks;  // words to compare from here outwards: so many from the first on
  };
  struct Fresh {  // of the walk at hand
    Registers at;
    std::uintptr_t fp_slot, begin_slot;  // words that the step from here outwards has read, besides the return address
  };
  struct Check {
    std::uintptr_t address, value;
  };

  static bool same(const Registers& a, const Registers& b) { return a.sp == b.sp && a.pc == b.pc && a.fp == b.fp; }

  // The outermost frame that a comparison from `from` on can no longer reach, or null: all is as it was.
  const Frame* first_difference(const Frame* from) const {
    for (const Check* check = checks_ + from->checks; check != checks_;) {
      --check;
      if (*reinterpret_cast<const std::uintptr_t*>(check->address) == check->value) [[likely]]
        continue;
      while (from[-1].checks > check - checks_) --from;
      return from - 1;
    }
    return nullptr;
  }

  // Words are compared from the last to the first, so those that a step needs first come last.
  void push(const Fresh& fresh, std::uint64_t seed) {
    const Frame& outside = frames_[count_];
    std::uint64_t hash = seed;
    std::uint32_t checks = 0;
    if (count_ > 0) {
      hash = outside.hash;
      checks = outside.checks;
      if (fresh.fp_slot != 0) checks_[checks++] = {fresh.fp_slot, outside.at.fp};
      checks_[checks++] = {outside.at.sp - 8, outside.at.pc};
      if (fresh.begin_slot != 0) checks_[checks++] = {fresh.begin_slot, outside.at.sp};
    }
    hash = (hash ^ fresh.at.pc) * 0xbf58476d1ce4e5b9u;
    frames_[++count_] = {fresh.at, hash ^ hash >> 29, checks};
  }

  // A chain longer than the limit: its inner frames, and nothing to remember.
  Chain cut(unsigned count, std::uint64_t seed) {
    count_ = 0;
    while (count > 0) push(fresh_[--count], seed);
    seed_ = 0;
    return {frames_[count_].hash, ChainEnd::kCut};
  }

  std::uint64_t seed_ = 0;  // of what is remembered; 0: nothing is
  unsigned count_ = 0;
  ChainEnd end_ = ChainEnd::kWhole;
  Frame frames_[kMost + 1];  // outermost first, from the second on
  Check checks_[3 * kMost];
  Fresh fresh_[kMost];  // innermost first; here, as a thread's stack may be small
};

}  // namespace heapyard::tracer
