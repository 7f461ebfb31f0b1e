// SPDX-License-Identifier: Apache-2.0
// Size classes of blocks that lie in runs of small pages.
//
// Idea: steps of 16 bytes to 256, then eight per octave to 32 KiB, so that a block wastes an eighth at most. From 1 KiB
// on one more: a power of two and a little, for buffers with a header. A block that is a multiple of a power of two, up
// to a page, is of a class that is one too, and spans begin at pages. So an aligned request chooses a class, and needs
// nothing else. A span of a class is as small as its live bytes ask: four choices of pages, of which
// each leaves little behind its last block. Class 0 stands for what is no block of a class.
// Cost: O(1); up to 1 KiB one look into a table.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace heapyard::policy {

inline constexpr unsigned kSmallPageLog2 = 12;
inline constexpr std::size_t kSmallPage = std::size_t{1} << kSmallPageLog2;

namespace page_classes {

inline constexpr unsigned kFine = 16;                // steps of 16 bytes
inline constexpr unsigned kSmaller = kFine + 2 * 8;  // classes up to 1 KiB
inline constexpr unsigned kClasses = 1 + kSmaller + 5 * 9;
inline constexpr unsigned kMostBlocks = 512;           // of a span
inline constexpr unsigned kTargets[] = {1, 4, 8, 16};  // pages of a span, by the live bytes of the class
inline constexpr unsigned kChoices = 4;

constexpr std::uint32_t bytes_of(unsigned c) {
  if (c <= kFine) return c * 16;
  if (c <= kSmaller) {
    const unsigned octave = 8 + (c - kFine - 1) / 8, step = (c - kFine - 1) % 8;
    return (9 + step) << (octave - 3);
  }
  const unsigned octave = 10 + (c - kSmaller - 1) / 9, step = (c - kSmaller - 1) % 9;
  return step == 0 ? 33u << (octave - 5) : (8 + step) << (octave - 3);
}
constexpr unsigned class_of(std::size_t bytes) {
  if (bytes <= kFine * 16) return bytes == 0 ? 1 : static_cast<unsigned>((bytes + 15) / 16);
  const auto octave = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // 8 to 14
  const auto step = static_cast<unsigned>((bytes - 1) >> (octave - 3)) - 8;
  if (octave < 10) return 1 + kFine + (octave - 8) * 8 + step;
  const bool little = (bytes - 1) >> (octave - 5) == 32;
  return 1 + kSmaller + (octave - 10) * 9 + (little ? 0 : 1 + step);
}
constexpr unsigned blocks_of(unsigned c, unsigned pages) {
  const std::size_t blocks = pages * kSmallPage / bytes_of(c);
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}
constexpr std::size_t waste(unsigned c, unsigned pages) {
  return pages * kSmallPage - std::size_t{blocks_of(c, pages)} * bytes_of(c);
}
// The fewest pages that waste an eighth at most; from there on the least waste within the target.
constexpr unsigned pages_of(unsigned c, unsigned target) {
  unsigned best = 1;
  while (blocks_of(c, best) == 0 || waste(c, best) * 8 > best * kSmallPage) ++best;
  for (unsigned pages = best + 1; pages <= target; ++pages) {
    const bool whole = pages * kSmallPage / bytes_of(c) <= kMostBlocks;
    if (whole && waste(c, pages) * best <= waste(c, best) * pages) best = pages;
  }
  return best;
}

}  // namespace page_classes

struct PageClasses {
  static constexpr unsigned kClasses = page_classes::kClasses;
  static constexpr std::size_t kLargest = std::size_t{32} << 10;
  static constexpr std::size_t kMostAligned = kSmallPage;
  static constexpr unsigned kMostBlocks = page_classes::kMostBlocks;

  static constexpr std::size_t bytes_of(unsigned c) { return kBytes[c]; }

  // Whether small_class_of(), one look into a table, may be asked.
  static constexpr bool is_small(std::size_t bytes) { return bytes <= kTabled; }
  static constexpr unsigned small_class_of(std::size_t bytes) { return kTable[(bytes + 15) / 16]; }

  // For 0 to kLargest bytes; 0 bytes get the smallest block.
  static constexpr unsigned class_of(std::size_t bytes) { return page_classes::class_of(bytes); }

  // Of which block the byte at `offset` of a span is. The product is exact below 64 KiB: the inverse is too large by
  // less than bytes / 2^32.
  static constexpr unsigned index_of(unsigned c, std::size_t offset) {
    return static_cast<unsigned>(offset * kInverse[c] >> 32);
  }

  // Pages of the next span of a class with so many live bytes: at most an eighth of these, where there is a choice.
  static constexpr unsigned pages_of(unsigned c, std::size_t live) {
    unsigned choice = 0;
    while (choice + 1 < kChoices && live / 8 >= kTargets[choice + 1] * kSmallPage) ++choice;  // bound: kChoices
    return kPages[c][choice];
  }
  static constexpr unsigned blocks_of(unsigned c, unsigned pages) { return page_classes::blocks_of(c, pages); }

 private:
  static constexpr unsigned kChoices = page_classes::kChoices;
  static constexpr auto kTargets = page_classes::kTargets;
  static constexpr std::size_t kTabled = 1024;

  static constexpr auto kBytes = [] {
    std::array<std::uint32_t, kClasses> bytes{};
    for (unsigned c = 1; c < kClasses; ++c) bytes[c] = page_classes::bytes_of(c);
    return bytes;
  }();
  static constexpr auto kInverse = [] {
    std::array<std::uint64_t, kClasses> inverse{};
    for (unsigned c = 1; c < kClasses; ++c) inverse[c] = ((std::uint64_t{1} << 32) + kBytes[c] - 1) / kBytes[c];
    return inverse;
  }();
  static constexpr auto kPages = [] {
    std::array<std::array<std::uint8_t, kChoices>, kClasses> all{};
    for (unsigned c = 1; c < kClasses; ++c) {
      for (unsigned choice = 0; choice < kChoices; ++choice)
        all[c][choice] = static_cast<std::uint8_t>(page_classes::pages_of(c, kTargets[choice]));
    }
    return all;
  }();
  static constexpr auto kTable = [] {
    std::array<std::uint8_t, kTabled / 16 + 1> table{};
    for (std::size_t at = 0; at < table.size(); ++at)
      table[at] = static_cast<std::uint8_t>(page_classes::class_of(at * 16));
    return table;
  }();
};
static_assert(page_classes::bytes_of(PageClasses::kClasses - 1) == PageClasses::kLargest);
static_assert(page_classes::class_of(PageClasses::kLargest) == PageClasses::kClasses - 1);

}  // namespace heapyard::policy
