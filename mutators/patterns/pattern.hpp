// SPDX-License-Identifier: Apache-2.0
// The 28 allocation patterns of the BFM paper by their own notation: what is allocated, in which order it is freed.
//
// After Finkler, "Handling and Profiling the Increasingly Large and Complex Memory Allocation Patterns of the 64 Bit
// Era" (IBM Research Report, 2004), section 3 and figure 4. Sizes are in words of 8 bytes. The report leaves open how
// many blocks there are, six orders of release, and "mb": docs/mutators.md says what ours are.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace heapyard::patterns {

enum class Sizes : std::uint8_t {
  kTurns,   // low, high, low, high, ...
  kRandom,  // uniform in [low, high]
  kSteps,   // low + (1 + i) / 256, and from `wrap` on again 0, 1, ...: figure 4
};

// Which blocks are released. In the middle: half of them, whose places are then filled again. At the end: all.
enum class Order : std::uint8_t {
  kNone,          // nothing in the middle
  kAscending,     // 0, 1, 2, ... ; in the middle: the first half
  kDescending,    // in the middle: the second half from the end
  kTurns,         // the even ones, then the odd ones
  kTurnsLifo,     // the even ones descending, then the odd ones descending
  kEven,          // middle: the even ones ascending
  kEvenBackward,  // middle: the even ones descending
  kStride4,       // 0, 4, 8, ..., then 1, 5, ...: figure 4
  kRuns,          // runs of 256, which have one size: the even runs, then the odd ones
  kRandom,
  kEnds,  // first, last, second, last but one, ...
};

struct Pattern {
  Sizes sizes;
  std::uint32_t low, high;  // words
  std::uint32_t wrap;       // words; 0: sizes rise as far as the footprint goes
  Order middle, last;
};

// The patterns in the report's order and notation.
std::span<const char* const> all_patterns();

// A pattern by its notation ("fifo:13", "alt:7,17", "m8:1-N/128", "r:64-2023", "ma:1-250") or its number from 1 to
// 28. Ends the program with exit 2 and one sentence if it is none.
Pattern read_pattern(std::string_view notation);

}  // namespace heapyard::patterns
