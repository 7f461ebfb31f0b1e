// SPDX-License-Identifier: Apache-2.0
// scalloc's size classes: steps of 16 bytes up to 256, powers of two from there to 1 MiB.
//
// Source: the published code (2015); each class with the bytes of its real span and the number of blocks in it. A
// real span of a fine class has 32 KiB, less what it may begin later; a coarse one has as many pages as its blocks
// need. Cost: O(1).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace heapyard::policy {

// What a size class is made of.
struct SpanShape {
  std::uint32_t bytes;   // of a block
  std::uint32_t blocks;  // of a real span
  std::uint32_t span;    // bytes of a real span, header included
  std::uint32_t slot;    // of the span-pool
};

namespace scalloc {

inline constexpr unsigned kFine = 16;  // the last class of fine steps
inline constexpr std::size_t kHeader = 128;

constexpr std::size_t bytes_of(unsigned c) { return c <= kFine ? c * 16 : std::size_t{1} << (c - 8); }

// `most`: bytes the real span must fit into. `later`: by how many bytes it may begin later.
constexpr SpanShape shape_of(unsigned c, std::size_t most, std::size_t later) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes = bytes_of(c);
  if (c <= kFine) {
    const std::size_t span = 32768 - later;  // so it touches eight pages wherever it begins
    return {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>((span - kHeader) / bytes),
            static_cast<std::uint32_t>(span), 0};
  }
  // 64 blocks up to 2 KiB, then as many as a mebibyte allows for, by halves.
  std::size_t blocks = c <= 19 ? 64 : c <= 21 ? 32 : c <= 24 ? 16 : std::size_t{1} << (28 - c);
  while (blocks * bytes + kHeader + later > most) blocks /= 2;
  const std::size_t span = ((blocks * bytes + kHeader) / kPage + 1) * kPage;
  return {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(span),
          c <= kFine + 1 ? 0 : c - kFine - 1};
}

// A real span that fills its virtual span: as many blocks as fit, and as a span can count.
constexpr SpanShape whole_shape_of(unsigned c, std::size_t span, std::size_t later) {
  constexpr std::size_t kMostBlocks = 0xffff;
  const std::size_t bytes = bytes_of(c), fit = (span - kHeader - later) / bytes;
  return {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(fit < kMostBlocks ? fit : kMostBlocks),
          static_cast<std::uint32_t>(span - later), 0};
}

}  // namespace scalloc

// VirtualSpan: bytes, a power of two. Later: by how many bytes a span may begin later. Whole: real spans fill it, which
// is to have no virtual spans. Share: blocks of more than one part of it in so many have no class.
template <std::size_t VirtualSpan = std::size_t{2} << 20, std::size_t Later = 0, bool Whole = false, unsigned Share = 2>
struct ScallocClasses {
  static constexpr std::size_t kVirtualSpan = VirtualSpan;
  static constexpr unsigned kFine = scalloc::kFine;
  static constexpr std::size_t kLargest = std::min(VirtualSpan / Share, std::size_t{1} << 20);
  static constexpr unsigned kClasses = static_cast<unsigned>(std::bit_width(kLargest - 1)) + 9;  // class 0 is nobody's

  static constexpr unsigned kSlots = 13;  // of the span-pool

  static constexpr std::size_t bytes_of(unsigned c) { return kShapes[c].bytes; }

  // Whether small_class_of() may be asked.
  static constexpr bool is_small(std::size_t bytes) { return bytes - 1 < kFine * 16; }
  static constexpr unsigned small_class_of(std::size_t bytes) { return static_cast<unsigned>((bytes - 1) / 16) + 1; }

  // For 0 to kLargest bytes; 0 bytes get the smallest block.
  static constexpr unsigned class_of(std::size_t bytes) {
    if (is_small(bytes)) return small_class_of(bytes);
    return bytes == 0 ? 1 : static_cast<unsigned>(std::bit_width(bytes - 1)) + 8;
  }

  static constexpr std::array<SpanShape, kClasses> kShapes = [] {
    std::array<SpanShape, kClasses> shapes{};
    for (unsigned c = 1; c < kClasses; ++c) {
      shapes[c] = Whole ? scalloc::whole_shape_of(c, VirtualSpan, Later) : scalloc::shape_of(c, VirtualSpan, Later);
    }
    return shapes;
  }();
};
static_assert(ScallocClasses<>::kClasses == 29);

}  // namespace heapyard::policy
