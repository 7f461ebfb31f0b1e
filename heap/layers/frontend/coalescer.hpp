// SPDX-License-Identifier: Apache-2.0
// Frees of the same word of the same slab become one.
//
// Idea: elfmalloc's coalescer. Each cell belongs to a hash of a word's address, and collects bits. So objects that lie
// together cost one addition and one OR, instead of one each. Where two words meet in a cell, the older one is flushed.
// (The original frees the newer object by itself, in a table as large as two magazines.) Cost: add O(1); flush O(cells
// used). Threads: each its own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/layers/span_concepts.hpp"

namespace heapyard {

// Slab: bit_of(object). Cells: a power of two.
template <BitSlab Slab, unsigned Cells>
class Coalescer {
  static_assert(std::has_single_bit(Cells) && Cells <= 1u << 16);

 public:
  // Takes an object in; calls free(slab, word, bits) for what it must let out.
  template <class Free>
  void add(Slab* slab, void* object, Free free) {
    const std::size_t bit = slab->bit_of(object), word = bit / 64;
    const std::size_t address = reinterpret_cast<std::uintptr_t>(slab->words() + word) / sizeof(std::uint64_t);
    const auto at = static_cast<std::uint16_t>((address ^ address >> kPageBits) % Cells);
    Cell& cell = cells_[at];
    if (cell.slab != slab || cell.word != word) {
      if (cell.bits == 0)
        used_[count_++] = at;
      else
        let_out(cell, free);
      cell.slab = slab;
      cell.word = word;
    }
    cell.bits |= std::uint64_t{1} << bit % 64;
  }

  // Lets everything out.
  template <class Free>
  void flush(Free free) {
    while (count_ > 0) let_out(cells_[used_[--count_]], free);
  }

 private:
  static constexpr int kPageBits = 15;  // words of a small page
  struct Cell {
    Slab* slab;
    std::size_t word;
    std::uint64_t bits;
  };

  template <class Free>
  static void let_out(Cell& cell, Free free) {
    const Cell out = cell;
    cell = {};
    if (out.bits != 0) free(out.slab, out.word, out.bits);
  }

  Cell cells_[Cells] = {};
  std::uint16_t used_[Cells] = {};
  unsigned count_ = 0;
};

}  // namespace heapyard
