// SPDX-License-Identifier: Apache-2.0
// What the program remembers of each recorded block: who owns it, where every event is recorded.
//
// Idea: a word of shadow memory (shadow.hpp) for every 16 bytes, or for every 32 where the malloc keeps its blocks that
// far apart: no probing, no lock, and neighbours in memory are neighbours there. From kLarge bytes on, a block's word
// is in a second shadow, one for every kStep bytes, at the first such step that lies in the block: a word for a few
// dozen bytes would be a waste. Blocks that are aligned to 8 bytes only have a third. Cost: O(1); of the memory of
// small blocks a half at most, or a quarter, of that of large ones a sixteenth. Threads: a block's word is touched by
// whoever owns the block. Fork: a child knows of no block. Errors: no memory for the word: the block goes unrecorded.
#pragma once

#include "tracer/events/shadow.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

class BlockTags {
 public:
  static constexpr std::size_t kLarge = 256;

  // `log2_apart`: of the least distance of two blocks that are aligned to 16 bytes; the first time counts. False: there
  // is no address space.
  bool prepare(unsigned log2_apart) {
    return small_.prepare(log2_apart) && odd_.prepare(Shadow::kLeastLog2) && large_.prepare(kLog2Step);
  }

  // Where the word of a block of `size` bytes is to be, if there is memory for it and no word of an earlier block
  // there; else null.
  [[gnu::always_inline]] std::uint64_t* place_at_once(std::uintptr_t block, std::size_t size) const {
    std::uint64_t* word = size < kLarge ? small_at(block) : large_.at(block, kStep - 1);
    if (word == nullptr || *word != 0) [[unlikely]]
      return nullptr;
    if (size < kLarge) return word;
    const std::uint64_t* small = small_at(block);
    return small == nullptr || *small == 0 ? word : nullptr;
  }
  // The same, but makes memory, whatever is there. `in_use` grows by its bytes. Null: there is none.
  std::uint64_t* place(std::uintptr_t block, std::size_t size, std::atomic<std::uint64_t>& in_use) {
    if (size < kLarge) return (block % 16 == 0 ? small_ : odd_).make(block, 0, in_use);
    return large_.make(block, kStep - 1, in_use);
  }
  // `word`: what either gave.
  static void put(std::uint64_t* word, std::uintptr_t block, const Owned& owned) {
    if (owned.size < kLarge) {
      *word = owned.size << Owner::kBits | owned.owner.word;
      return;
    }
    const bool fits = owned.size < kUnfit;
    *word = (fits ? owned.size : kUnfit) << kLargeShift | step_of(block) << Owner::kBits | owned.owner.word;
    if (!fits) word[1] = owned.size;  // a block as large has the next step too
  }

  // Takes the word of a block out. Nobody: it is not recorded. O(1).
  [[gnu::always_inline]] Owned take(std::uintptr_t block) {
    if (std::uint64_t* small = small_at(block); small != nullptr) [[likely]] {
      if (const std::uint64_t found = *small; found != 0) [[likely]] {
        *small = 0;
        return {owner_in(found), found >> Owner::kBits};
      }
    }
    std::uint64_t* large = large_.at(block, kStep - 1);
    return large != nullptr && is_of(*large, block) ? take_large(large) : Owned{};
  }

  // Forgets all blocks. While nobody records.
  void forget() {
    small_.clear();
    odd_.clear();
    large_.clear();
  }

 private:
  static constexpr unsigned kLog2Step = 7;
  static constexpr std::uintptr_t kStep = std::uintptr_t{1} << kLog2Step;
  static constexpr std::uint64_t kStepMask = kStep / 8 - 1;
  static constexpr unsigned kLargeShift = Owner::kBits + 4;
  static constexpr std::uint64_t kUnfit = (std::uint64_t{1} << (64 - kLargeShift)) - 1;

  [[gnu::always_inline]] std::uint64_t* small_at(std::uintptr_t block) const {
    if (block % 16 == 0) [[likely]]
      return small_.at(block);
    return odd_.at(block);
  }
  // How far before its step a block begins, in units of 8 bytes.
  static std::uint64_t step_of(std::uintptr_t block) { return (0 - block) >> 3 & kStepMask; }
  static bool is_of(std::uint64_t large, std::uintptr_t block) {
    return large != 0 && (large >> Owner::kBits & kStepMask) == step_of(block);
  }
  static Owner owner_in(std::uint64_t word) { return {word & ((std::uint64_t{1} << Owner::kBits) - 1)}; }
  static Owned take_large(std::uint64_t* word) {
    const std::uint64_t found = *word;
    *word = 0;
    std::uint64_t size = found >> kLargeShift;
    if (size == kUnfit) {
      size = word[1];
      word[1] = 0;
    }
    return {owner_in(found), size};
  }

  Shadow small_, odd_, large_;
};

}  // namespace heapyard::tracer
