// SPDX-License-Identifier: Apache-2.0
// Walks the stack, and remembers the walk before it: most of a chain is what it was.
//
// Idea: a step outwards depends on a frame's registers and on the words of the stack it reads. Where a walk meets a
// frame of the walk before it, with the same registers, the rest is the same if those words are: comparing them is
// cheaper than stepping, and by induction as right as stepping, since each word is compared before the next is looked
// at. (After memray's validated last trace, bloomberg/memray#1004, which compares return addresses only.) Most programs
// use the frame pointer as any other register, and few frames begin where it says: it and the words it was saved in
// count only where a frame further out needs it. Hashes are polynomials that run from the outermost frame inwards, so
// that of the common part is known, and that of any inner part is a difference (Karp and Rabin, "Efficient randomized
// pattern-matching algorithms", 1987): of a chain longer than the limit all frames are remembered, and only its inner
// part compared and told. What lies further out may be out of date; it is compared before it is told.
// Cost: O(frames), about 1 ns a frame of the common part. One per thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tracer/events/chain_memo.hpp"
#include "tracer/events/unwinder.hpp"

namespace heapyard::tracer {

class ChainWalker {
 public:
  static constexpr unsigned kMost = ChainMemo::kLevels - 1;

  struct Chain {
    std::uint64_t hash;
    ChainEnd end;
  };

  // The chain of callers from `at` on, its innermost `limit` frames. Of a longer one, as many as `most` frames are
  // walked, to be remembered; both are kMost at most. `seed`: what is mixed into the hash. O(frames).
  template <class Learn>
  Chain walk(RuleCache& rules, Registers at, std::uintptr_t stack_end, unsigned limit, unsigned most,
             std::uint64_t seed, Learn learn) {
    limit_ = limit;
    if (most > limit && too_deep_ > 0) {
      most = limit;
      --too_deep_;
    }
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
        const Frame* differs = first_difference(known, beyond(static_cast<unsigned>(known - frames_) + inner));
        if (differs == nullptr) break;  // met: the rest is remembered
        known = differs;                // from there on outwards it may be met again
      }
      if (inner == most) return cut(inner, most);
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
      for (unsigned outer = count_; outer > 0 && inner < limit; --outer)
        fresh_[inner++] = {frames_[outer].at, 0, 0, true};
      return cut(inner, most);
    }
    push(inner);
    seed_ = signals ? 0 : seed;  // what lies under a signal is not on the stack as a step would find it
    recallable_ = signals ? 0 : count_ + 1;
    end_ = end;
    const bool longer = beyond(count_) > 0;
    return {hash_within_limit(longer), longer ? ChainEnd::kCut : end};
  }

  // The number of the chain of callers from `at` on, if it is the one that `memo` expects and not longer than the
  // limit; else 0. O(frames).
  [[gnu::always_inline]] std::uint32_t recall_expected(ChainMemo& memo, const Registers& at, std::uintptr_t end) const {
    return memo.recall_expected([&](const ChainMemo::Entry& entry) __attribute__((always_inline)) {
      return begins_at(entry, at, end) && entry.beyond == 0 &&
             first_that_fails(&checks_[frames_[entry.level].checks]) == checks_;
    });
  }
  // The same if `memo` knows it at all. `end`: as ChainMemo::recall_other(). O(frames).
  std::uint32_t recall_other(ChainMemo& memo, const Registers& at, std::uintptr_t end) const {
    return memo.recall_other(at, end, [&](const ChainMemo::Entry& entry) {
      return begins_at(entry, at, end) && first_difference(&frames_[entry.level], entry.beyond) == nullptr;
    });
  }

  // An entry of `memo` by which the chain just walked, of this seed, will be known by where it began, once its number
  // is put there; null if it ended in code without tables, or leads through a signal. O(1).
  ChainMemo::Entry* remember_in(ChainMemo& memo, std::uint64_t seed) const {
    if (seed_ != seed || end_ != ChainEnd::kWhole || count_ == 0) return nullptr;
    const Frame& innermost = frames_[count_];
    const Registers& at = innermost.at;
    ChainMemo::Entry& entry = memo.entry_for(
        at, [&](unsigned nearest) -> const Registers& { return frames_[count_ > nearest ? count_ - nearest : 1].at; });
    const unsigned words = entry.put(at, &checks_[innermost.checks], std::min(innermost.checks, ChainMemo::kChecks));
    // From there on the walker's own words are enough: a frame has one at least, but for the outermost.
    const unsigned left = innermost.checks - words;
    const Frame* outer = &frames_[count_ - std::min(count_, words)];
    while (outer->checks < left) ++outer;
    entry.key = ChainMemo::key_of(at, innermost.by_fp, outer->identity);
    entry.by_fp = innermost.by_fp;
    entry.level = static_cast<unsigned>(outer - frames_);
    entry.beyond = beyond(count_);
    entry.number = 0;
    return &entry;
  }

  // The chain just walked: its frames, innermost first.
  unsigned frames() const { return count_ - beyond(count_); }
  // Its outermost frames that are those of the chain of which note_told() was said last.
  unsigned told_frames() const {
    const unsigned outer = beyond(count_);
    return told_from_ == outer && told_ > outer ? told_ - outer : 0;
  }
  void note_told() {
    told_ = count_;
    told_from_ = beyond(count_);
  }
  void forget_told() { told_ = 0; }
  // Nothing is remembered: the next walk is of another seed.
  void forget() {
    seed_ = 0;
    told_ = recallable_ = 0;
  }
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

  // Whether the chain of callers from `at` on is the entry's as far as its words go.
  [[gnu::always_inline]] bool begins_at(const ChainMemo::Entry& entry, const Registers& at, std::uintptr_t end) const {
    return entry.level < recallable_ &&
           entry.key == ChainMemo::key_of(at, entry.by_fp, frames_[entry.level].identity) &&
           entry.words_hold(at.sp, end);
  }

  // Of so many frames, those that lie beyond the limit.
  unsigned beyond(unsigned frames) const { return frames > limit_ ? frames - limit_ : 0; }

  // Of the frames within the limit. `cut`: others lie beyond.
  std::uint64_t hash_within_limit(bool cut) const {
    std::uint64_t hash = frames_[count_].hash + cut;
    if (const unsigned outer = beyond(count_); outer > 0) [[unlikely]]
      hash -= (frames_[outer].hash - frames_[0].hash) * power(count_ - outer);
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
  }

  static std::uint64_t power(unsigned exponent) {
    std::uint64_t result = 1;
    for (std::uint64_t base = kBase; exponent > 0; exponent /= 2, base *= base) result *= exponent % 2 != 0 ? base : 1;
    return result;
  }

  // From `check` on to the first one, which never holds.
  [[gnu::always_inline]] static const Check* first_that_fails(const Check* check) {
    for (;; check -= 4) {
      if (!check[0].holds()) return check;
      if (!check[-1].holds()) return check - 1;
      if (!check[-2].holds()) return check - 2;
      if (!check[-3].holds()) return check - 3;
    }
  }

  // The outermost frame that a comparison from `from` on can no longer reach, or null: all is as it was, as far out as
  // the frame of level `beyond`.
  const Frame* first_difference(const Frame* from, unsigned beyond) const {
    const Check* check = &checks_[from->checks];
    if (beyond == 0) [[likely]] {
      check = first_that_fails(check);
      if (check == checks_) return nullptr;
    } else {
      if (beyond >= from - frames_) return nullptr;
      const Check* last = &checks_[frames_[beyond].checks];
      while (check != last && check->holds()) --check;
      if (check == last) return nullptr;
    }
    while (from[-1].checks >= check - checks_) --from;
    return from - 1;
  }

  // Puts the walk at hand, of `inner` frames, onto what is remembered. Words are compared from the last to the first,
  // so those that a step needs first come last.
  void push(unsigned inner) {
    told_ = std::min(told_, count_);
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
      const std::uint64_t mixed = fresh->at.pc * 0xbf58476d1ce4e5b9u;
      hash = hash * kBase + (mixed ^ mixed >> 29);
      const std::uint64_t identity = (hash ^ fresh->at.sp) * 0x94d049bb133111ebu ^ (by_fp ? fresh->at.fp : 0);
      top[1] = {fresh->at, hash, identity, static_cast<std::uint32_t>(check - checks_), by_fp};
    }
    count_ += inner;
  }

  // A chain longer than `most`, by its inner frames: those within the limit, and nothing to remember. For a while it is
  // not tried again.
  Chain cut(unsigned inner, unsigned most) {
    if (most > limit_) too_deep_ = kPatience;
    count_ = 0;
    push(inner);
    seed_ = 0;
    recallable_ = 0;
    return {hash_within_limit(true), ChainEnd::kCut};
  }

  static constexpr std::uintptr_t kNever = 0;
  static constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15u;
  static constexpr unsigned kPatience = 64;  // walks of `limit` frames that take as long as a few of kMost

  std::uint64_t seed_ = 0;  // of what is remembered; 0: nothing is
  unsigned count_ = 0, limit_ = 0, too_deep_ = 0;
  unsigned recallable_ = 0;            // the frames of lower levels are remembered
  unsigned told_ = 0, told_from_ = 0;  // frames that are as they were when a chain was told, the outermost one's level
  ChainEnd end_ = ChainEnd::kWhole;
  Frame frames_[kMost + 1];  // outermost first, from the second on
  Check checks_[1 + 3 * kMost];
  Fresh fresh_[kMost];  // innermost first; here, as a thread's stack may be small
};

}  // namespace heapyard::tracer
