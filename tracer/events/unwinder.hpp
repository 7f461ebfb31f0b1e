// SPDX-License-Identifier: Apache-2.0
// Walks the stack of the calling thread and gives its return addresses.
//
// Idea: a rule per return address, taken from .eh_frame once and kept in a table of words that all threads share; the
// walk itself is then a load and an addition per frame, with or without frame pointers. It needs no proof that a frame
// pointer is right, since the rule is the compiler's own. (Valgrind keeps such a cache of its tables, r13280; framehop
// too.) Cost: O(1) per frame once seen; else UnwindTable::find. Threads: entries are single words that hold address and
// rule, so a torn one cannot be seen. Addresses must be below 2^47, as user space of x86-64 is. What stops a walk
// early: no table (JIT code, but for what epilogue_rule.hpp knows), or a table's row of a rare form. Then the frame
// pointer is followed while it stays inside the thread's stack and grows; else the chain is told as torn.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "tracer/events/epilogue_rule.hpp"
#include "tracer/events/unwind_table.hpp"

namespace heapyard::tracer {

struct Registers {
  std::uintptr_t pc, sp, fp;
};

// Those of the caller of a function with this frame, __builtin_frame_address(0).
inline Registers caller_of(void* frame) {
  const auto* stored = static_cast<const std::uintptr_t*>(frame);
  return {stored[1], reinterpret_cast<std::uintptr_t>(frame) + 16, stored[0]};
}

class RuleCache {
 public:
  // O(1) if seen before. `learn(object)` is told of the object of each address seen for the first time.
  template <class Learn>
  [[gnu::always_inline]] FrameRule rule(std::uintptr_t pc, Learn learn) {
    Line& line = lines_[line_of(pc)];
    const std::uint64_t rule = line.entries[pc % kWays].load(std::memory_order_relaxed) ^ tag_of(pc);
    if (is_rule(rule)) [[likely]]
      return FrameRule(static_cast<std::uint32_t>(rule));
    return find(line, pc, learn);
  }

  // The rule for `pc` may be asked for soon.
  [[gnu::always_inline]] void expect(std::uintptr_t pc) const { __builtin_prefetch(&lines_[line_of(pc)]); }

  // Objects may have gone. O(rules there may be), but O(1) if there is none.
  void forget() {
    if (!any_.exchange(false)) return;
    for (Line& line : lines_) {
      for (auto& entry : line.entries) {
        if (entry.load(std::memory_order_relaxed) != 0)
          entry.store(0, std::memory_order_relaxed);  // untouched pages stay so
      }
    }
  }

 private:
  // Addresses that lie near each other are often on the same stack, so they share a line of the cache.
  static constexpr std::size_t kWays = 8, kLines = 1u << 11, kNear = 64, kTagBits = 64 - FrameRule::kBits;
  static_assert(kLines == 1u << (47 - kTagBits));
  struct alignas(64) Line {
    std::atomic<std::uint64_t> entries[kWays] = {};
  };

  // An entry is a rule and, above it, the address's lower bits; the upper ones are told by the line besides.
  static std::size_t line_of(std::uintptr_t pc) { return (pc / kNear ^ pc >> kTagBits) % kLines; }
  static std::uint64_t tag_of(std::uintptr_t pc) { return std::uint64_t{pc} << FrameRule::kBits; }
  static bool is_rule(std::uint64_t untagged) { return untagged - 1 < (std::uint64_t{1} << FrameRule::kBits) - 1; }

  // Not at its first place.
  template <class Learn>
  [[gnu::noinline]] FrameRule find(Line& line, std::uintptr_t pc, Learn learn) {
    std::size_t probe = 1;
    for (; probe < kWays; ++probe) {
      const std::uint64_t seen = line.entries[(pc + probe) % kWays].load(std::memory_order_relaxed);
      if (is_rule(seen ^ tag_of(pc))) return FrameRule(static_cast<std::uint32_t>(seen ^ tag_of(pc)));
      if (seen == 0) break;
    }
    if (line.entries[pc % kWays].load(std::memory_order_relaxed) == 0) probe = 0;
    dl_find_object object;
    FrameRule rule = UnwindTable::find(pc - 1, object);
    if (object.dlfo_link_map == nullptr) rule = rule_by_epilogue(pc);
    if (object.dlfo_link_map != nullptr) learn(object);
    if (!any_.load(std::memory_order_relaxed)) any_.store(true, std::memory_order_relaxed);
    line.entries[(pc + probe) % kWays].store(tag_of(pc) | rule.word, std::memory_order_relaxed);
    return rule;
  }

  Line lines_[kLines] = {};
  std::atomic<bool> any_{false};  // rules at all
};

enum class ChainEnd { kWhole, kCut, kTorn };

// One step outwards, and the places on the stack that it read: as long as they hold the same, it leads to the same.
struct Step {
  enum Kind : std::uint8_t { kCaller, kSignal, kEnd, kTorn };
  Registers next;
  std::uintptr_t fp_slot;     // where the caller's FP was saved; 0: FP was not touched
  std::uintptr_t begin_slot;  // where the frame's beginning was stored; 0: it was computed
  bool by_fp;                 // FP told where the frame begins, or that it cannot be told
};

// `interrupted`: at.pc is that of an instruction itself, not a return address. `stack_end`: of the thread's stack if
// at.sp is on it, else 0. `taken` is filled for kCaller, its registers for kSignal too. O(1) once the rule is known.
template <class Learn>
[[gnu::always_inline]] inline Step::Kind step(RuleCache& rules, const Registers& at, bool interrupted,
                                              std::uintptr_t stack_end, Step& taken, Learn learn) {
  constexpr std::uintptr_t kFarthest = 64u << 20;  // no frame is larger
  const auto load = [](std::uintptr_t address) { return *reinterpret_cast<const std::uintptr_t*>(address); };
  const FrameRule rule = rules.rule(at.pc + interrupted, learn);
  const FrameRule::Kind kind = rule.kind();
  const std::uintptr_t fp_below = rule.fp_below();
  std::uintptr_t begin;  // of the frame: the caller's SP
  taken.begin_slot = 0;
  taken.by_fp = kind != FrameRule::kStack && kind != FrameRule::kEnd;
  if (kind == FrameRule::kStack) [[likely]] {  // by a frame's size (FrameRule::fits)
    begin = at.sp + rule.size();
    // Which frames save FP is not to be foreseen, so there is no branch.
    const std::uintptr_t saved = 0 - std::uintptr_t{fp_below != 0};
    taken.fp_slot = (begin - fp_below) & saved;
    taken.next = {load(begin - 8), begin, load(taken.fp_slot | (reinterpret_cast<std::uintptr_t>(&at.fp) & ~saved))};
    return Step::kCaller;
  }
  if (kind == FrameRule::kPointer) {
    begin = at.fp + rule.offset();
  } else if (kind == FrameRule::kStored) {
    taken.begin_slot = at.fp + rule.offset();
    if (taken.begin_slot < at.sp || taken.begin_slot - at.sp > kFarthest || taken.begin_slot % 8 != 0)
      return Step::kTorn;
    begin = load(taken.begin_slot);
  } else if (kind == FrameRule::kSignal) {
    const auto& registers = reinterpret_cast<const ucontext_t*>(at.sp)->uc_mcontext.gregs;
    taken.next = {static_cast<std::uintptr_t>(registers[REG_RIP]), static_cast<std::uintptr_t>(registers[REG_RSP]),
                  static_cast<std::uintptr_t>(registers[REG_RBP])};
    taken.fp_slot = 0;
    return taken.next.sp % 8 == 0 ? Step::kSignal : Step::kTorn;
  } else if (kind == FrameRule::kEnd) {
    return Step::kEnd;
  } else {
    if (at.fp < at.sp || at.fp % 8 != 0 || at.fp + 16 > stack_end) return Step::kTorn;
    taken.fp_slot = at.fp;
    taken.next = {load(at.fp + 8), at.fp + 16, load(at.fp)};
    return Step::kCaller;
  }
  if (begin <= at.sp || begin - at.sp > kFarthest || begin % 8 != 0) return Step::kTorn;
  taken.fp_slot = kind == FrameRule::kStored ? at.fp : fp_below != 0 ? begin - fp_below : 0;
  taken.next = {load(begin - 8), begin, taken.fp_slot != 0 ? load(taken.fp_slot) : at.fp};
  return Step::kCaller;
}

// Return addresses from `at` outwards into frames[0 .. limit). O(frames).
template <class Learn>
ChainEnd walk(RuleCache& rules, Registers at, std::uintptr_t stack_end, std::uintptr_t* frames, unsigned limit,
              unsigned& count, Learn learn) {
  bool interrupted = false;
  for (count = 0; at.pc != 0;) {
    if (count == limit) return ChainEnd::kCut;
    frames[count++] = at.pc;
    Step taken{at, 0, 0, false};
    const Step::Kind kind = step(rules, at, interrupted, stack_end, taken, learn);
    if (kind == Step::kEnd) return ChainEnd::kWhole;
    if (kind == Step::kTorn) return ChainEnd::kTorn;
    interrupted = kind == Step::kSignal;
    at = taken.next;
  }
  return ChainEnd::kWhole;
}

}  // namespace heapyard::tracer
