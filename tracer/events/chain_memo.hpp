// SPDX-License-Identifier: Apache-2.0
// Remembers chains by where they began.
//
// Idea: a program allocates from the same places again and again, and mostly with the same callers above. A walk
// depends on the registers it began with and on the words of the stack it read (chain_walker.hpp): where those are what
// they were, the chain is what it was, without a step. Only the innermost words count here; further out it is enough
// that the walker's last chain is the same, whose words it compares itself. Of the words a sum is kept, not they: so a
// chain takes one line of the cache, however long it is. They are all read before it is known whether they hold, so not
// beyond where the stack can be read, which of a fiber's is told by the page only.
//
// Which chain comes next is mostly the one that came after the last one the last time (four times of five where g++
// compiles), or else the one before that: so an entry names both, and they are fetched from memory as soon as it has
// come. (As a processor foretells addresses that miss its cache: Joseph and Grunwald, "Prefetching using Markov
// predictors", ISCA 1997.) Any other is sought by where it began and the return addresses of its nearest callers. They
// lie one frame apart, and how large a frame is, its return address has told the last time; if that is wrong, what is
// read is noise, and the chain is not found. Of the eight entries of a set, those are looked at whose tags say the
// same; the tags of a set are compared at once. There are twice as many sets once chains have driven each other out
// often enough, up to kMostSets. Cost: O(frames), a load and a comparison each. One per thread, all zero at first.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

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
  static constexpr unsigned kChecks = 12, kNearest = 3, kWays = 8, kLevelBits = 10, kLevels = 1 << kLevelBits;

  // The innermost words of the stack that a walk has read, and a sum of what they held.
  struct alignas(64) Entry {
    std::uint64_t key, sum;
    std::uint16_t offsets[kChecks];  // of the words: in words, from where the return address lies
    std::uint16_t reach;             // beyond the furthest of them
    std::uint16_t beyond : kLevelBits, by_fp : 1, fours : 3;  // so many groups of four words; the last is filled up
    std::uint32_t number : Owner::kChainBits, level : kLevelBits;
    std::uint16_t next[2];  // the entries of the chains that came after this one, the last time first

    // The words of a chain whose registers are `at`, innermost first, from check[0] down to check[1 - count], kChecks
    // at most, or as many as do not lie too far away. Returns how many.
    unsigned put(const Registers& at, const Check* check, unsigned count) {
      unsigned index = 0;
      sum = 0;
      reach = 0;
      for (; index < count; ++index, --check) {
        const std::uintptr_t offset = check->address - (at.sp - 8);
        if (offset / 8 >= UINT16_MAX) break;
        offsets[index] = static_cast<std::uint16_t>(offset / 8);
        sum += check->value * kFactors[index];
        reach = std::max(reach, static_cast<std::uint16_t>(offsets[index] + 1));
      }
      fours = (index + 3) / 4;
      for (unsigned rest = index; rest % 4 != 0; ++rest) {  // with what is there for sure
        offsets[rest] = 0;
        sum += at.pc * kFactors[rest];
      }
      return index;
    }
    // Whether they hold the same. `end`: up to there the stack can be read.
    [[gnu::always_inline]] bool words_hold(std::uintptr_t sp, std::uintptr_t end) const {
      const auto* words = reinterpret_cast<const std::uintptr_t*>(sp - 8);
      if (end - (sp - 8) < std::uintptr_t{reach} * 8) return false;
      std::uint64_t now = 0;
#pragma GCC unroll 12
      for (unsigned index = 0; index < kChecks; ++index) {
        if (index % 4 == 0 && fours == index / 4) break;
        now += words[offsets[index]] * kFactors[index];
      }
      return now == sum;
    }
  };
  static_assert(sizeof(Entry) == 64);

  // The number of the chain that came after the last one the last time, if `is(entry)` says that it is this one now;
  // else 0. O(1).
  template <class Is>
  [[gnu::always_inline]] std::uint32_t recall_expected(Is is) {
    Entry* entry = expected_;
    return entry != nullptr && is(*entry) ? came(*entry) : 0;
  }
  // The number of the chain of callers from `at` on if it is another one that is known, or 0. `end`: up to there the
  // stack can be read. `is(entry)`: whether it is the entry's. O(1).
  template <class Is>
  std::uint32_t recall_other(const Registers& at, std::uintptr_t end, Is is) {
    if (expected_ == nullptr) return 0;
    auto& [first, second] = last_->next;
    Entry* entry = &entries_[second];
    if (!is(*entry)) {
      const Place place = place_of(at, end, [](std::uintptr_t) {});
      const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(&tags_[place.set * kWays]));
      const __m128i same = _mm_cmpeq_epi16(tags, _mm_set1_epi16(static_cast<short>(place.tag)));
      auto ways = static_cast<unsigned>(_mm_movemask_epi8(same)) & 0x5555;  // of a way's two bits the lower one
      do {
        if (ways == 0) return 0;
        entry = &entries_[place.set * kWays + static_cast<unsigned>(__builtin_ctz(ways)) / 2];
        ways &= ways - 1;
      } while (!is(*entry));
    }
    second = std::exchange(first, index_of(*entry));
    return came(*entry);
  }

  // The return addresses of the nearest callers, if their frames are as large as the last time; else noise. O(1).
  template <class Visit>
  [[gnu::always_inline]] void nearest_callers(const Registers& at, std::uintptr_t end, Visit visit) const {
    std::uintptr_t pc = at.pc, address = at.sp - 8;
#pragma GCC unroll 3
    for (unsigned index = 0; index < kNearest; ++index) {
      const std::uintptr_t outwards = address + std::uintptr_t{words_in_frame_[frame_of(pc)]} * 8;
      address = outwards < end ? outwards : address;
      pc = *reinterpret_cast<const std::uintptr_t*>(address);
      visit(pc);
    }
  }

  // The chain of callers from `at` on will be walked and remembered: where it probably will be is fetched from memory
  // meanwhile. `visit`: as nearest_callers(). O(1).
  template <class Visit>
  void expect(const Registers& at, std::uintptr_t end, Visit visit) const {
    fetch(entries_[place_of(at, end, visit).set * kWays + turn_ % kWays]);
  }

  // An entry for the chain walked from `at` on, to be filled in. `frame(n)`: the registers of the nth nearest caller,
  // as far as kNearest. O(1).
  template <class Frame>
  Entry& entry_for(const Registers& at, Frame frame) {
    std::uintptr_t pc = at.pc, sp = at.sp;
    std::uint64_t sum = pc + sp * 8;
    for (unsigned index = 1; index <= kNearest; ++index) {
      const Registers& caller = frame(index);
      words_in_frame_[frame_of(pc)] = static_cast<std::uint16_t>((caller.sp - sp) / 8);
      pc = caller.pc;
      sp = caller.sp;
      sum = sum * 5 + pc;
    }
    const Place place = place_by(sum);  // that of nearest_callers() from now on
    const std::size_t index = place.set * kWays + turn_++ % kWays;
    tags_[index] = place.tag;
    Entry& entry = entries_[index];
    if (last_ != nullptr) last_->next[1] = std::exchange(last_->next[0], index_of(entry));
    entry.next[0] = entry.next[1] = index_of(entry);  // what comes is not known: something at hand
    expected_ = last_ = &entry;
    if (entry.key != 0 && ++driven_out_ > kPatience * in_use() && in_use() < kMostSets) {
      driven_out_ = 0;
      more_ = more_ * 2 + kFirstSets;
    }
    return entry;
  }

  // No chain is remembered. O(entries in use), and what was never used is not touched.
  void forget() {
    if (last_ == nullptr) return;
    for (Entry& entry : std::span(entries_).first(in_use() * kWays)) entry.key = 0;
    last_ = expected_ = nullptr;
    turn_ = driven_out_ = more_ = 0;
  }

  // Of where a chain begins, and of the frame where it goes on where its words end. `by_fp`: whether it depends on
  // at.fp.
  static std::uint64_t key_of(const Registers& at, bool by_fp, std::uint64_t identity) {
    return mixed(at) + identity + (by_fp ? at.fp * kOdds[0] : 0);
  }

 private:
  static constexpr unsigned kFirstSets = 1 << 6, kMostSets = 1 << 10, kPatience = 2, kFrameBits = 14;
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t kOdds[] = {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu};

  // Odd, and random otherwise: of one word that differs the sum always does, of several all but once in 2^64.
  static constexpr auto kFactors = [] {
    std::array<std::uint64_t, kChecks> factors{};
    std::uint64_t state = 0x2545f4914f6cdd1d;
    for (std::uint64_t& factor : factors) {  // xorshift64 (Marsaglia 2003)
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      factor = state | 1;
    }
    return factors;
  }();

  struct Place {
    std::size_t set;
    std::uint16_t tag;
  };

  static std::uint64_t mixed(const Registers& at) { return at.pc * kOdd + at.sp * kOdds[1]; }
  static std::size_t frame_of(std::uintptr_t pc) { return pc % (1 << kFrameBits); }
  // Inline, as GCC 12 takes a call of a function that only fetches for one that does nothing.
  [[gnu::always_inline]] static void fetch(const Entry& entry) {
    const char* lines = reinterpret_cast<const char*>(&entry);
    for (std::size_t line = 0; line < sizeof entry; line += 64) __builtin_prefetch(lines + line);
  }

  template <class Visit>
  [[gnu::always_inline]] Place place_of(const Registers& at, std::uintptr_t end, Visit visit) const {
    std::uint64_t sum = at.pc + at.sp * 8;
    nearest_callers(at, end, [&](std::uintptr_t pc) {
      sum = sum * 5 + pc;
      visit(pc);
    });
    return place_by(sum);
  }
  Place place_by(std::uint64_t sum) const {
    sum *= kOdd;
    return {sum >> 40 & (in_use() - 1), static_cast<std::uint16_t>(sum >> 24)};
  }
  // The chain of this entry has come again.
  [[gnu::always_inline]] std::uint32_t came(Entry& entry) {
    last_ = &entry;
    expected_ = &entries_[entry.next[0]];
    fetch(*expected_);
    fetch(entries_[entry.next[1]]);
    return entry.number;
  }
  std::uint16_t index_of(const Entry& entry) const { return static_cast<std::uint16_t>(&entry - entries_); }
  unsigned in_use() const { return (more_ | (kFirstSets - 1)) + 1; }

  Entry entries_[kMostSets * kWays];                            // of the first in_use() sets
  alignas(16) std::uint16_t tags_[kMostSets * kWays];           // of the entries' places
  std::uint16_t words_in_frame_[std::size_t{1} << kFrameBits];  // from one return address to the next, by the first
  Entry *last_, *expected_;                                     // of the last chain and of the next; null: none yet
  unsigned turn_, driven_out_;
  unsigned more_;  // than kFirstSets are in use
};

}  // namespace heapyard::tracer
