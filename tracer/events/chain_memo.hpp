// Remembers chains by where they began.
//
// Idea: a program allocates from the same places again and again, and mostly with the same callers above. A walk
// depends on the registers it began with and on the words of the stack it read (chain_walker.hpp): where those are what
// they were, the chain is what it was, without a step. Only the innermost few words are kept here; further out it is
// enough that the walker's last chain is the same, whose words it compares itself. So a chain takes one line of the
// cache, however long it is. One place leads to many chains: where among the entries one lies is told by the return
// addresses of its nearest callers as well, read where they lay the last time from this place. If they lie elsewhere
// now, what is read is noise, and the chain is not found. Cost: O(frames), a load and a comparison each. One per
// thread, all zero at first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tracer/events/unwinder.hpp"
#include "tracer/session/layout.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

// A word of the stack, and what it held.
struct Check {
  std::uintptr_t address, value;
  bool holds() const { return *reinterpret_cast<const std::uintptr_t*>(address) == value; }
};

class ChainMemo {
 public:
  static constexpr unsigned kChecks = 5, kHints = 3, kLevelBits = 10, kLevels = 1 << kLevelBits;

  // Words of the stack, and what they held, for a chain that begins with certain registers.
  class Words {
   public:
    Words() = default;  // of memory that is zero
    // The return address to at.pc, which is there for sure, in all places.
    explicit Words(const Registers& at) : offsets_() { std::fill_n(values_, kChecks, at.pc); }
    // At `index`, below kChecks. False: it lies too far from the chain's beginning, `sp`.
    bool put(unsigned index, const Check& check, std::uintptr_t sp) {
      const std::uintptr_t offset = check.address - (sp - 8);
      if (offset % 8 != 0 || offset / 8 > UINT16_MAX) return false;
      offsets_[index] = static_cast<std::uint16_t>(offset / 8);
      values_[index] = check.value;
      return true;
    }
    // One is looked at only if those before it hold.
    [[gnu::always_inline]] bool hold(std::uintptr_t sp) const {
      const auto* words = reinterpret_cast<const std::uintptr_t*>(sp - 8);
#pragma GCC unroll 5
      for (unsigned index = 0; index < kChecks; ++index) {
        if (words[offsets_[index]] != values_[index]) return false;
      }
      return true;
    }

   private:
    std::uintptr_t values_[kChecks];
    std::uint16_t offsets_[kChecks];  // in words, from sp - 8 on
  };

  // The number of the chain of callers from `at` on, or 0. `identity_of(level)`: of the frame of that level in the
  // walker's chain, which tells it from all others; 0: there is none. `holds(level, beyond)`: whether the chain is what
  // it was from there outwards as far as level `beyond`, asked once it is sure up to there.
  template <class IdentityOf, class Holds>
  [[gnu::always_inline]] std::uint32_t recall(const Registers& at, IdentityOf identity_of, Holds holds) const {
    const Entry* entry = ways_of(at);
    __builtin_prefetch(entry + 1);
    for (unsigned way = 0; way < kWays; ++way, ++entry) {
      if (entry->key == key_of(at, entry->by_fp, identity_of(entry->level)) && entry->words.hold(at.sp) &&
          holds(entry->level, entry->beyond))
        return entry->number;
    }
    return 0;
  }

  // Tells `expect` the return addresses of the nearest callers, if they lie where they lay the last time.
  template <class Expect>
  void expected_callers(const Registers& at, Expect expect) const {
    const auto* page = reinterpret_cast<const std::uintptr_t*>(page_of(at));
    for (const std::uint16_t word : hints_[place_of(at)].words) expect(page[word]);
  }

  // `words`: what the walk from `at` to the frame of `level`, of this identity, has read, innermost first; `by_fp`:
  // whether it depends on at.fp. `beyond`: the level of the frame whose existence is all that matters of it and of
  // those outside it. Levels are below kLevels. `callers`: where the return addresses of the kHints nearest callers
  // lie, 0 for none. `number`: not 0.
  void remember(const Registers& at, bool by_fp, const Words& words, std::uint32_t level, std::uint32_t beyond,
                std::uint64_t identity, const std::uintptr_t (&callers)[kHints], std::uint32_t number) {
    Hints& hints = hints_[place_of(at)];
    for (unsigned index = 0; index < kHints; ++index) {
      const bool near = callers[index] - page_of(at) < kPage;
      hints.words[index] = static_cast<std::uint16_t>((near ? callers[index] : at.sp - 8) % kPage / 8);
    }
    entries_[set_of(at) * kWays + turn_++ % kWays] = {
        key_of(at, by_fp, identity), words, static_cast<std::uint16_t>(beyond), by_fp, number, level};
  }

 private:
  static constexpr unsigned kWays = 2, kSetBits = 10, kPlaceBits = 11;
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t kOdds[kHints] = {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u};

  struct alignas(64) Entry {
    std::uint64_t key;
    [[no_unique_address]] Words words;  // what follows lies in its padding
    std::uint16_t beyond : kLevelBits, by_fp : 1;
    std::uint32_t number : Owner::kChainBits, level : kLevelBits;
  };
  static_assert(sizeof(Entry) == 64);

  struct Hints {
    std::uint16_t words[kHints];  // of the page
  };

  static std::uint64_t mixed(const Registers& at) { return at.pc * kOdd + at.sp * kOdds[1]; }
  // Of where a chain begins, and of where it goes on where its words end.
  static std::uint64_t key_of(const Registers& at, bool by_fp, std::uint64_t identity) {
    return mixed(at) + identity + (by_fp ? at.fp * kOdds[0] : 0);
  }
  static std::size_t place_of(const Registers& at) { return mixed(at) >> (64 - kPlaceBits); }
  // The page of the stack in which the return address to at.pc lies: all of it can be read, whatever lies there.
  static std::uintptr_t page_of(const Registers& at) { return (at.sp - 8) & ~(kPage - 1); }
  std::size_t set_of(const Registers& at) const {
    const Hints& hints = hints_[place_of(at)];
    const auto* page = reinterpret_cast<const std::uintptr_t*>(page_of(at));
    std::uint64_t hash = mixed(at);
    for (unsigned index = 0; index < kHints; ++index) hash += page[hints.words[index]] * kOdds[index];
    return hash >> (64 - kSetBits);
  }
  const Entry* ways_of(const Registers& at) const { return &entries_[set_of(at) * kWays]; }

  Entry entries_[kWays << kSetBits];
  Hints hints_[std::size_t{1} << kPlaceBits];
  unsigned turn_;
};

}  // namespace heapyard::tracer
