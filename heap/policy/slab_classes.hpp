// SPDX-License-Identifier: Apache-2.0
// elfmalloc's size classes and the geometry of their slabs: 8 bytes, steps of 16 up to 192, powers of two to 1 MiB.
//
// Source: the published code (2017). A slab is a page of 256 KiB, or of 2 MiB from 64 KiB on: a header, a bitset,
// the objects. One bit stands for `grain` bytes and an object for as many bits, of which only the first is used; the
// grain is the power of two that leaves the most room for objects. Objects of a power of two are aligned to their
// size. Cost: all at compile time; class_of O(1).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace heapyard::policy {

struct SlabShape {
  std::uint32_t bytes;      // of an object
  std::uint32_t objects;    // of a slab
  std::uint32_t first;      // byte of the first object
  std::uint16_t words;      // of the bitset
  std::uint8_t grain_log2;  // bytes per bit
  std::uint8_t slot;        // of a pool: one for each size of page
  std::uint32_t span;       // bytes of the slab
  std::uint32_t cutoff;     // objects that must be free for the slab to be offered to every thread
};

namespace slab {

inline constexpr std::size_t kHeader = 64, kSmallPage = std::size_t{256} << 10, kBigPage = std::size_t{2} << 20;
inline constexpr unsigned kClasses = 26, kSteps = 12, kFirstBig = 21;

constexpr std::size_t bytes_of(unsigned c) {
  return c == 0 ? 8 : c <= kSteps ? c * 16 : std::size_t{1} << (c - kSteps + 7);
}

constexpr SlabShape shape_with(std::size_t bytes, std::size_t page, unsigned grain_log2) {
  const std::size_t bits = bytes >> grain_log2,
                    align = std::has_single_bit(bytes) ? bytes : std::size_t{1} << grain_log2;
  for (std::size_t words = 1;; ++words) {
    // With this many words: as many objects as they can tell apart, if that fills the page.
    const std::size_t first = (kHeader + 8 * words + align - 1) / align * align;
    const std::size_t fit = (page - first) / bytes, tell = (words * 64 + bits - 1) / bits;
    if (fit > tell) continue;
    return {static_cast<std::uint32_t>(bytes),     static_cast<std::uint32_t>(fit),
            static_cast<std::uint32_t>(first),     static_cast<std::uint16_t>(words),
            static_cast<std::uint8_t>(grain_log2), 0,
            static_cast<std::uint32_t>(page),      0};
  }
}

constexpr SlabShape shape_of(unsigned c) {
  const std::size_t bytes = bytes_of(c), page = c < kFirstBig ? kSmallPage : kBigPage;
  SlabShape best{};
  for (unsigned grain = 3; (std::size_t{1} << grain) <= bytes; ++grain) {
    if (bytes % (std::size_t{1} << grain) != 0) break;
    const SlabShape shape = shape_with(bytes, page, grain);
    if (shape.objects > best.objects || (shape.objects == best.objects && shape.words < best.words)) best = shape;
  }
  best.cutoff = best.objects * 6 / 10 == 0 ? 1 : best.objects * 6 / 10;
  best.slot = c < kFirstBig ? 0 : 1;
  return best;
}

}  // namespace slab

struct SlabClasses {
  static constexpr unsigned kClasses = slab::kClasses;
  static constexpr unsigned kSlots = 2;
  static constexpr unsigned kFine = slab::kFirstBig - 1;  // the last class whose empty slabs keep their memory
  static constexpr std::size_t kLargest = std::size_t{1} << 20;

  static constexpr std::size_t bytes_of(unsigned c) { return slab::bytes_of(c); }

  // Whether small_class_of(), one look into a table, may be asked.
  static constexpr bool is_small(std::size_t bytes) { return bytes <= kTabled; }
  static constexpr unsigned small_class_of(std::size_t bytes) { return kTable[(bytes + 7) / 8]; }

  // For 0 to kLargest bytes; 0 bytes get the smallest object.
  static constexpr unsigned class_of(std::size_t bytes) {
    if (is_small(bytes)) return small_class_of(bytes);
    return static_cast<unsigned>(std::bit_width(bytes - 1)) - 7 + slab::kSteps;
  }

  static constexpr std::array<SlabShape, kClasses> kShapes = [] {
    std::array<SlabShape, kClasses> shapes{};
    for (unsigned c = 0; c < kClasses; ++c) shapes[c] = slab::shape_of(c);
    return shapes;
  }();

 private:
  static constexpr std::size_t kTabled = 1024;
  static constexpr auto kTable = [] {
    std::array<std::uint8_t, kTabled / 8 + 1> table{};
    unsigned c = 0;
    for (std::size_t at = 0; at < table.size(); ++at) {
      while (slab::bytes_of(c) < at * 8) ++c;
      table[at] = static_cast<std::uint8_t>(c);
    }
    return table;
  }();
};
static_assert(slab::bytes_of(slab::kClasses - 1) == SlabClasses::kLargest);
static_assert(slab::bytes_of(slab::kFirstBig) == std::size_t{64} << 10);

}  // namespace heapyard::policy
