// Remembers whole chains by where they began.
//
// Idea: a program allocates from the same places again and again, and mostly with the same callers above. A walk
// depends on the registers it began with and on the words of the stack it read (chain_walker.hpp): where those are what
// they were, the chain is what it was, without a step. Compared from the innermost outwards, each word before the next
// is looked at. Where one place leads to several chains by turns, a few of them are kept. Cost: O(frames), a load and a
// comparison each. One per thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tracer/events/unwinder.hpp"

namespace heapyard::tracer {

// A word of the stack, and what it held.
struct Check {
  std::uintptr_t address, value;
};

class ChainMemo {
 public:
  // The number of the chain of callers from `at` on, or 0. `seed`: as it was remembered with.
  [[gnu::always_inline]] std::uint64_t recall(const Registers& at, std::uint64_t seed) const {
    const Whole* ways = &wholes_[place_of(at)];
    for (const Whole* whole = ways; whole != ways + kWays; ++whole) {
      if (whole->pc != at.pc || whole->sp != at.sp || whole->seed != seed || (whole->by_fp && whole->fp != at.fp))
        continue;
      const Check* check = &whole->checks[whole->count];
      while (*reinterpret_cast<const std::uintptr_t*>(check->address) == check->value) --check;
      if (check == whole->checks) return whole->number;
    }
    return 0;
  }

  // `checks`: what the walk from `at` on has read, outermost first; `by_fp`: whether it depends on at.fp. `number`: not
  // 0. Long ones are not remembered.
  void remember(const Registers& at, bool by_fp, std::uint64_t seed, const Check* checks, std::uint32_t count,
                std::uint64_t number) {
    if (count > kChecks) return;
    Whole& whole = wholes_[place_of(at) + turn_++ % kWays];
    whole.pc = at.pc;
    whole.sp = at.sp;
    whole.fp = at.fp;
    whole.by_fp = by_fp;
    whole.seed = seed;
    whole.count = count;
    whole.number = number;
    whole.checks[0] = {reinterpret_cast<std::uintptr_t>(&kNever), ~kNever};
    std::copy(checks, checks + count, whole.checks + 1);
  }

 private:
  static constexpr unsigned kWays = 4, kWholes = 64 * kWays, kChecks = 128;
  static constexpr std::uintptr_t kNever = 0;

  // An odd number of cache lines, so that those of different chains do not compete for the same few places of the
  // cache.
  struct alignas(64) Whole {
    std::uintptr_t pc, sp, fp;
    std::uint64_t seed, number;  // all zero: no chain has this seed
    std::uint32_t count;
    bool by_fp;
    Check checks[1 + kChecks];  // the first one never holds: there the comparison ends
  };

  static unsigned place_of(const Registers& at) {
    return static_cast<unsigned>((at.pc ^ at.sp << 24) * 0x9e3779b97f4a7c15u >> 58) * kWays;
  }

  static_assert(sizeof(Whole) / 64 % 2 == 1);

  Whole wholes_[kWholes];
  unsigned turn_;
};

}  // namespace heapyard::tracer
