// SPDX-License-Identifier: Apache-2.0
// One cache: which lines it holds, each set in the order of use (true LRU). It holds no data.
//
// A slot is one word: the number of the line (address / 64) and its flags. Line 0 does not occur: a process never maps
// it.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.hpp"

namespace heapyard::simulator {

using Line = std::uint64_t;
inline constexpr unsigned kLineBytes = 64;

using Slot = std::uint64_t;
inline constexpr Slot kWritable = 1;  // exclusive or modified
inline constexpr Slot kDirty = 2;     // modified
inline constexpr Slot kWatched = 4;   // two cores have touched it, so that its stores are recorded
inline constexpr unsigned kFlagBits = 3;

constexpr Line line_of(Slot slot) { return slot >> kFlagBits; }
constexpr Slot slot_of(Line line, Slot flags) { return line << kFlagBits | flags; }

class Cache {
 public:
  // `by_frame`: the set depends on a frame of memory that the page's number decides, as with physical addresses; pages
  // that are neighbours then do not compete for the same sets. The number of sets is then a multiple of 64.
  Cache(std::size_t bytes, unsigned ways, bool by_frame)
      : ways_(ways), sets_(bytes / kLineBytes / ways), by_frame_(by_frame), slots_(sets_ * ways) {}

  // The line's slot, which becomes the first of its set; nullptr: a miss. O(ways).
  Slot* use(Line line) {
    Slot* const set = set_of(line);
    if (line_of(set[0]) == line) return set;
    for (unsigned way = 1; way < ways_; ++way) {
      if (line_of(set[way]) != line) continue;
      const Slot slot = set[way];
      std::memmove(set + 1, set, way * sizeof(Slot));
      set[0] = slot;
      return set;
    }
    return nullptr;
  }

  // The same without a use.
  Slot* find(Line line) {
    Slot* const set = set_of(line);
    for (unsigned way = 0; way < ways_; ++way)
      if (line_of(set[way]) == line) return set + way;
    return nullptr;
  }

  // Puts a line that is not there first in its set. The slot that had to go, or 0. O(ways).
  Slot insert(Slot slot) {
    Slot* const set = set_of(line_of(slot));
    unsigned way = 0;
    while (way + 1 < ways_ && set[way] != 0) ++way;  // an empty slot, or the last
    const Slot evicted = set[way];
    std::memmove(set + 1, set, way * sizeof(Slot));
    set[0] = slot;
    return evicted;
  }

  // What the slot was; 0: it was not there. The others keep their order. O(ways).
  Slot remove(Line line) {
    Slot* const slot = find(line);
    if (!slot) return 0;
    const Slot was = *slot;
    Slot* const last = set_of(line) + ways_ - 1;
    std::memmove(slot, slot + 1, static_cast<std::size_t>(last - slot) * sizeof(Slot));
    *last = 0;
    return was;
  }

  std::size_t sets() const { return sets_; }
  unsigned ways() const { return ways_; }

 private:
  Slot* set_of(Line line) {
    std::size_t set;
    if (by_frame_) {
      const auto frames = static_cast<std::uint64_t>(sets_ / 64);
      const auto frame = static_cast<std::uint64_t>(static_cast<unsigned __int128>(mix(line >> 6)) * frames >> 64);
      set = frame * 64 + (line & 63);
    } else {
      set = line & (sets_ - 1);
    }
    return &slots_[set * ways_];
  }

  unsigned ways_;
  std::size_t sets_;
  bool by_frame_;
  std::vector<Slot> slots_;
};

}  // namespace heapyard::simulator
