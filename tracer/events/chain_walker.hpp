// Walks the stack, and remembers the walk before it: most of a chain is what it was.
//
// Idea: a step outwards depends on a frame's registers and on the words of the stack it reads. Where a walk meets a
// frame of the walk before it, with the same registers, the rest is the same if those words are: comparing them is
// cheaper than stepping, and by induction as right as stepping, since each word is compared before the next is looked
// at. (After memray's validated last trace, bloomberg/memray#1004, which compares return addresses only.) Most programs
// use the frame pointer as any other register, and few frames begin where it says: it and the words it was saved in
// count only where a frame further out needs it. Hashes run from the outermost frame inwards, so that of the common
// part is known. Cost: O(frames), about 1 ns a frame of the common part. One per thread.
#pragma once

#include <cstdint>

#include "tracer/events/chain_memo.hpp"
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
    frames_[0].at.sp = ~std::uintptr_t{0};  // lies outside of every frame: no walk goes beyond
    frames_[0].hash = frames_[0].identity = seed;
    checks_[0] = {reinterpret_cast<std::uintptr_t>(&kNever), ~kNever};  // never holds: there a comparison ends
    const Frame* known = &frames_[seed == seed_ ? count_ : 0];          // the remembered frame that may be met next
    bool interrupted = false, signals = false;
    ChainEnd end = end_;
    for (;;) {
      if (at.pc == 0) {
        end = ChainEnd::kWhole;
        known = frames_;
        break;
      }
      while (known->at.sp < at.sp) --known;
      if (same(*known, at) && !interrupted) {
        const Frame* differs = first_difference(known);
        if (differs == nullptr) break;  // met: the rest is remembered
        known = differs;                // from there on outwards it may be met again
      }
      if (inner == most) return cut(inner);
      Step taken{at, 0, 0, false};
      const Step::Kind kind = step(rules, at, interrupted, stack_end, taken, learn);
      Fresh& frame = fresh_[inner++];
      frame = {at, taken.fp_slot, taken.begin_slot, taken.by_fp};
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
      for (unsigned outer = count_; outer > 0 && inner < most; --outer)
        fresh_[inner++] = {frames_[outer].at, 0, 0, true};
      return cut(inner);
    }
    push(inner);
    seed_ = signals ? 0 : seed;  // what lies under a signal is not on the stack as a step would find it
    end_ = end;
    return {frames_[count_].hash, end};
  }

  // The number of the chain of callers from `at` on, if `memo` knows it; else 0. O(frames).
  [[gnu::always_inline]] std::uint32_t recall(const ChainMemo& memo, const Registers& at, std::uint64_t seed) const {
    if (seed_ != seed) return 0;
    return memo.recall(
        at, [this](std::uint32_t level) { return level <= count_ ? frames_[level].identity : 0; },
        [this](std::uint32_t level) { return first_difference(&frames_[level]) == nullptr; });
  }

  // So that the chain just walked, of this seed, is known by where it began, by this number; not if it ended in code
  // without tables, or leads through a signal. O(1).
  void remember_in(ChainMemo& memo, std::uint64_t seed, std::uint32_t number) const {
    if (seed_ != seed || end_ != ChainEnd::kWhole || count_ == 0) return;
    const Frame& innermost = frames_[count_];
    const Registers& at = innermost.at;
    ChainMemo::Words words(at);
    const Check* check = &checks_[innermost.checks];
    for (unsigned count = 0; count < ChainMemo::kChecks && check != checks_ && words.put(count, *check, at.sp); ++count)
      --check;
    const Frame* outer = &innermost;  // from there on the walker's own words are enough
    while (outer != frames_ && outer[-1].checks >= check - checks_) --outer;
    std::uintptr_t callers[ChainMemo::kHints] = {};
    for (unsigned index = 0; index < ChainMemo::kHints && index + 1 < count_; ++index)
      callers[index] = frames_[count_ - 1 - index].at.sp - 8;
    memo.remember(at, innermost.by_fp, words, static_cast<std::uint32_t>(outer - frames_), outer->identity, callers,
                  number);
  }

  // The chain just walked: its frames, innermost first.
  unsigned frames() const { return count_; }
  std::uintptr_t frame(unsigned index) const { return frames_[count_ - index].at.pc; }

 private:
  struct Frame {
    Registers at;
    std::uint64_t hash;      // of this frame and all outside it
    std::uint64_t identity;  // a hash of that and of the registers here that matter
    std::uint32_t checks;    // words to compare from here outwards: from this one on to the first
    bool by_fp;              // the walk from here outwards depends on FP
  };
  struct Fresh {  // of the walk at hand
    Registers at;
    std::uintptr_t fp_slot, begin_slot;  // words that the step from here outwards has read, besides the return address
    bool by_fp;
  };
  static bool same(const Frame& known, const Registers& at) {
    return known.at.sp == at.sp && known.at.pc == at.pc && (known.at.fp == at.fp || !known.by_fp);
  }

  // The outermost frame that a comparison from `from` on can no longer reach, or null: all is as it was.
  const Frame* first_difference(const Frame* from) const {
    const Check* check = &checks_[from->checks];
    while (check->holds()) --check;
    if (check == checks_) return nullptr;
    while (from[-1].checks >= check - checks_) --from;
    return from - 1;
  }

  // Puts the walk at hand, of `inner` frames, onto what is remembered. Words are compared from the last to the first,
  // so those that a step needs first come last.
  void push(unsigned inner) {
    Frame* top = &frames_[count_];
    std::uint64_t hash = top->hash;
    Check* check = checks_ + top->checks;
    for (const Fresh* fresh = &fresh_[inner]; fresh-- != fresh_; ++top) {
      bool by_fp = fresh->by_fp;
      if (top != frames_) {
        by_fp |= top->by_fp && fresh->fp_slot == 0;
        if (fresh->fp_slot != 0 && top->by_fp) *++check = {fresh->fp_slot, top->at.fp};
        *++check = {top->at.sp - 8, top->at.pc};
        if (fresh->begin_slot != 0) *++check = {fresh->begin_slot, top->at.sp};
      }
      hash = (hash ^ fresh->at.pc) * 0xbf58476d1ce4e5b9u;
      hash ^= hash >> 29;
      const std::uint64_t identity = (hash ^ fresh->at.sp) * 0x94d049bb133111ebu ^ (by_fp ? fresh->at.fp : 0);
      top[1] = {fresh->at, hash, identity, static_cast<std::uint32_t>(check - checks_), by_fp};
    }
    count_ += inner;
  }

  // A chain longer than the limit: its inner frames, and nothing to remember.
  Chain cut(unsigned count) {
    count_ = 0;
    push(count);
    seed_ = 0;
    return {frames_[count_].hash, ChainEnd::kCut};
  }

  static constexpr std::uintptr_t kNever = 0;

  std::uint64_t seed_ = 0;  // of what is remembered; 0: nothing is
  unsigned count_ = 0;
  ChainEnd end_ = ChainEnd::kWhole;
  Frame frames_[kMost + 1];  // outermost first, from the second on
  Check checks_[1 + 3 * kMost];
  Fresh fresh_[kMost];  // innermost first; here, as a thread's stack may be small
};

}  // namespace heapyard::tracer
