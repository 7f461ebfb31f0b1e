// Remembers chains by where they began.
//
// Idea: a program allocates from the same places again and again, and mostly with the same callers above. A walk
// depends on the registers it began with and on the words of the stack it read (chain_walker.hpp): where those are what
// they were, the chain is what it was, without a step. Only the innermost words are kept here; further out it is enough
// that the walker's last chain is the same, whose words it compares itself. So a chain takes two lines of the cache,
// however long it is. One place leads to many chains: where among the entries one lies is told by the return addresses
// of its nearest callers as well. They lie one frame apart, and how large a frame is, its return address has told the
// last time; if that is wrong, what is read is noise, and the chain is not found. There are twice as many entries once
// chains have driven each other out often enough, up to kMostSets. Cost: O(frames), a load and a comparison each. One
// per thread, all zero at first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/events/unwinder.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

// A word of the stack, and what it held.
struct Check {
  std::uintptr_t address, value;
  bool holds() const { return *reinterpret_cast<const std::uintptr_t*>(address) == value; }
};

class ChainMemo {
 public:
  static constexpr unsigned kChecks = 11, kNearest = 3, kWays = 2, kLevelBits = 10, kLevels = 1 << kLevelBits;

  // The innermost words of the stack that a walk has read, and what they held.
  struct alignas(128) Entry {
    std::uint64_t key;
    std::uintptr_t values[kChecks];
    std::uint16_t offsets[kChecks];  // of the words: in words, from where the return address lies
    std::uint16_t beyond : kLevelBits, by_fp : 1, fours : 2;  // so many groups of four words; the last is filled up
    std::uint32_t number : Owner::kChainBits, level : kLevelBits;

    // The words of a chain whose registers are `at`, innermost first, from check[0] down to check[1 - count], kChecks
    // at most, or as many as do not lie too far away. Returns how many.
    unsigned put(const Registers& at, const Check* check, unsigned count) {
      unsigned index = 0;
      for (; index < count; ++index, --check) {
        const std::uintptr_t offset = check->address - (at.sp - 8);
        if (offset / 8 > UINT16_MAX) break;
        offsets[index] = static_cast<std::uint16_t>(offset / 8);
        values[index] = check->value;
      }
      fours = (index + 3) / 4;
      for (unsigned rest = index; rest % 4 != 0 && rest < kChecks; ++rest) {  // with what is there for sure
        offsets[rest] = 0;
        values[rest] = at.pc;
      }
      return index;
    }
    // One is looked at only if those before it hold.
    [[gnu::always_inline]] bool words_hold(std::uintptr_t sp) const {
      const auto* words = reinterpret_cast<const std::uintptr_t*>(sp - 8);
#pragma GCC unroll 11
      for (unsigned index = 0; index < kChecks; ++index) {
        if (index % 4 == 0 && fours == index / 4) break;
        if (words[offsets[index]] != values[index]) return false;
      }
      return true;
    }
  };
  static_assert(sizeof(Entry) == 128);

  // The chains of which it may be one.
  struct Set {
    Entry ways[kWays];
  };

  // Where the chain of callers from `at` on is, if it is known; fetched from memory meanwhile. `end`: up to there the
  // stack can be read. O(1).
  [[gnu::always_inline]] const Set* expect(const Registers& at, std::uintptr_t end) const {
    const Set* set = &sets_[set_of(at, end)];
    const char* lines = reinterpret_cast<const char*>(set);
    for (std::size_t line = 0; line < sizeof *set; line += 64) __builtin_prefetch(lines + line);
    return set;
  }

  // The number of the chain of callers from `at` on, or 0. `set`: what expect() said. `identity_of(level)`: of the
  // frame of that level in the walker's chain, which tells it from all others; 0: there is none. `holds(level,
  // beyond)`: whether the chain is what it was from there outwards as far as level `beyond`, asked once it is sure up
  // to there.
  template <class IdentityOf, class Holds>
  [[gnu::always_inline]] std::uint32_t recall(const Registers& at, const Set* set, IdentityOf identity_of,
                                              Holds holds) const {
    for (const Entry& entry : set->ways) {
      if (entry.key == key_of(at, entry.by_fp, identity_of(entry.level)) && entry.words_hold(at.sp) &&
          holds(entry.level, entry.beyond))
        return entry.number;
    }
    return 0;
  }

  // The return addresses of the nearest callers, if their frames are as large as the last time; else noise. O(1).
  template <class Visit>
  [[gnu::always_inline]] void nearest_callers(const Registers& at, std::uintptr_t end, Visit visit) const {
    std::uintptr_t pc = at.pc, address = at.sp - 8;
#pragma GCC unroll 3
    for (unsigned index = 0; index < kNearest; ++index) {
      const std::uintptr_t outwards = address + std::uintptr_t{words_in_frame_[place_of(pc)]} * 8;
      address = outwards < end ? outwards : address;
      pc = *reinterpret_cast<const std::uintptr_t*>(address);
      visit(pc);
    }
  }

  // An entry for the chain walked from `at` on, to be filled in. `frame(n)`: the registers of the nth nearest caller,
  // as far as kNearest. O(1).
  template <class Frame>
  Entry& entry_for(const Registers& at, std::uintptr_t end, Frame frame) {
    std::uintptr_t pc = at.pc, sp = at.sp;
    for (unsigned index = 1; index <= kNearest; ++index) {
      const Registers& caller = frame(index);
      words_in_frame_[place_of(pc)] = static_cast<std::uint16_t>((caller.sp - sp) / 8);
      pc = caller.pc;
      sp = caller.sp;
    }
    Entry& entry = sets_[set_of(at, end)].ways[turn_++ % kWays];
    if (entry.key != 0 && ++driven_out_ > kPatience * in_use() && in_use() < kMostSets) {
      driven_out_ = 0;
      more_ = more_ * 2 + kFirstSets;
    }
    return entry;
  }

  // Of where a chain begins, and of the frame where it goes on where its words end. `by_fp`: whether it depends on
  // at.fp.
  static std::uint64_t key_of(const Registers& at, bool by_fp, std::uint64_t identity) {
    return mixed(at) + identity + (by_fp ? at.fp * kOdds[0] : 0);
  }

 private:
  static constexpr unsigned kFirstSets = 1 << 8, kMostSets = 1 << 11, kPatience = 2, kPlaceBits = 14;
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t kOdds[] = {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu};

  static std::uint64_t mixed(const Registers& at) { return at.pc * kOdd + at.sp * kOdds[1]; }
  static std::size_t place_of(std::uintptr_t pc) { return pc % (1 << kPlaceBits); }

  [[gnu::always_inline]] std::size_t set_of(const Registers& at, std::uintptr_t end) const {
    std::uint64_t sum = at.pc + at.sp * 8;
    nearest_callers(at, end, [&](std::uintptr_t pc) { sum = sum * 5 + pc; });
    return sum * kOdd >> 40 & (in_use() - 1);
  }
  unsigned in_use() const { return (more_ | (kFirstSets - 1)) + 1; }

  Set sets_[kMostSets];                                         // the first in_use()
  std::uint16_t words_in_frame_[std::size_t{1} << kPlaceBits];  // from one return address to the next, by the first
  unsigned turn_, driven_out_;
  unsigned more_;  // than kFirstSets are in use
};

}  // namespace heapyard::tracer
