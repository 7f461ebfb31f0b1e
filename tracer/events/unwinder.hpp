// Walks the stack of the calling thread and gives its return addresses.
//
// Idea: a rule per return address, taken from .eh_frame once and kept in one array of words that all threads share; the
// walk itself is then a load and an addition per frame, with or without frame pointers. It needs no proof that a frame
// pointer is right, since the rule is the compiler's own. (Valgrind keeps such a cache of its tables, r13280; framehop
// too.) Cost: O(1) per frame once seen; else UnwindTable::find. Threads: entries are single words that hold address and
// rule, so a torn one cannot be seen. Addresses must be below 2^47, as user space of x86-64 is. What stops a walk
// early: no table (JIT code), or a table's row of a rare form. Then the frame pointer is followed while it stays inside
// the thread's stack and grows; else the chain is told as torn.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "tracer/events/unwind_table.hpp"

namespace heapyard::tracer {

struct Registers {
  std::uintptr_t pc, sp, fp;
};

class RuleCache {
 public:
  // O(1) if seen before. `learn(object)` is told of the object of each address seen for the first time.
  template <class Learn>
  FrameRule rule(std::uintptr_t pc, Learn learn) {
    std::atomic<std::uint64_t>& entry = entries_[pc & (kEntries - 1)];
    const std::uint64_t tag = pc / kEntries;
    const std::uint64_t seen = entry.load(std::memory_order_relaxed);
    if (seen >> 31 == tag) [[likely]]
      return FrameRule::unpacked(static_cast<std::uint32_t>(seen & 0x7fffffff));
    dl_find_object object;
    const FrameRule rule = UnwindTable::find(pc - 1, object);
    if (object.dlfo_link_map != nullptr) learn(object);
    entry.store(tag << 31 | rule.packed(), std::memory_order_relaxed);
    return rule;
  }

  // Objects may have gone.
  void forget() {
    for (auto& entry : entries_) entry.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kEntries = 1u << 14;
  std::atomic<std::uint64_t> entries_[kEntries] = {};
};

enum class ChainEnd { kWhole, kCut, kTorn };

// Return addresses from `at` outwards into frames[0 .. limit); O(frames). `stack_end`: the end of the thread's stack, 0
// if not known.
template <class Learn>
ChainEnd walk(RuleCache& rules, Registers at, std::uintptr_t stack_end, std::uintptr_t* frames, unsigned limit,
              unsigned& count, Learn learn) {
  constexpr std::uintptr_t kFarthest = 64u << 20;  // no frame is larger
  const auto load = [](std::uintptr_t address) { return *reinterpret_cast<const std::uintptr_t*>(address); };
  const std::uintptr_t stack_begin = at.sp;
  const auto on_stack = [&](std::uintptr_t address) {
    return address >= at.sp && address % 8 == 0 && stack_end != 0 && stack_begin < stack_end &&
           address + 16 <= stack_end;
  };
  bool interrupted = false;  // pc is that of an instruction itself, not a return address
  for (count = 0; at.pc != 0;) {
    if (count == limit) return ChainEnd::kCut;
    frames[count++] = at.pc;
    const FrameRule rule = rules.rule(at.pc + interrupted, learn);
    interrupted = false;
    std::uintptr_t begin;  // of the frame: the caller's SP
    switch (rule.kind) {
      case FrameRule::kStack:
        begin = at.sp + static_cast<std::uintptr_t>(static_cast<std::intptr_t>(rule.offset));
        break;
      case FrameRule::kPointer:
        begin = at.fp + static_cast<std::uintptr_t>(static_cast<std::intptr_t>(rule.offset));
        break;
      case FrameRule::kStored: {
        const std::uintptr_t place = at.fp + static_cast<std::uintptr_t>(static_cast<std::intptr_t>(rule.offset));
        if (place < at.sp || place - at.sp > kFarthest) return ChainEnd::kTorn;
        begin = load(place);
        break;
      }
      case FrameRule::kSignal: {
        const auto& context = *reinterpret_cast<const ucontext_t*>(at.sp);
        at = {static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]),
              static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]),
              static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RBP])};
        interrupted = true;
        continue;
      }
      case FrameRule::kEnd:
        return ChainEnd::kWhole;
      default:
        if (!on_stack(at.fp)) return ChainEnd::kTorn;
        at = {load(at.fp + 8), at.fp + 16, load(at.fp)};
        continue;
    }
    if (begin <= at.sp || begin - at.sp > kFarthest || begin % 8 != 0) return ChainEnd::kTorn;
    at.pc = load(begin - 8);
    if (rule.kind == FrameRule::kStored)
      at.fp = load(at.fp);
    else if (rule.fp_slot != 0)
      at.fp = load(begin - 8 * rule.fp_slot);
    at.sp = begin;
  }
  return ChainEnd::kWhole;
}

}  // namespace heapyard::tracer
