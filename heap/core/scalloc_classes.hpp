// scalloc's size classes: steps of 16 bytes up to 256, powers of two from there to 1 MiB.
//
// Source: the published code (2015); each class with the bytes of its real span and the number of blocks in it. A
// real span of a fine class has 32 KiB, of a coarse one as many pages as its blocks need. Cost: O(1).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace heapyard::core {

// What a size class is made of.
struct SpanShape {
  std::uint32_t bytes;   // of a block
  std::uint32_t blocks;  // of a real span
  std::uint32_t span;    // bytes of a real span, header included
  std::uint32_t slot;    // of the span-pool
};

namespace scalloc {

inline constexpr unsigned kFine = 16;     // the last class of fine steps
inline constexpr unsigned kClasses = 29;  // class 0 is nobody's
inline constexpr std::size_t kHeader = 128;

constexpr std::size_t bytes_of(unsigned c) { return c <= kFine ? c * 16 : std::size_t{1} << (c - 8); }

constexpr SpanShape shape_of(unsigned c) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes = bytes_of(c);
  if (c <= kFine) {
    constexpr std::size_t kSpan = 32768;
    return {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>((kSpan - kHeader) / bytes), kSpan, 0};
  }
  // 64 blocks up to 2 KiB, then as many as a mebibyte allows for, by halves.
  const std::size_t blocks = c <= 19 ? 64 : c <= 21 ? 32 : c <= 24 ? 16 : std::size_t{1} << (28 - c);
  const std::size_t span = ((blocks * bytes + kHeader) / kPage + 1) * kPage;
  return {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(span),
          c <= kFine + 1 ? 0 : c - kFine - 1};
}

}  // namespace scalloc

struct ScallocClasses {
  static constexpr unsigned kFine = scalloc::kFine;
  static constexpr unsigned kClasses = scalloc::kClasses;
  static constexpr std::size_t kLargest = std::size_t{1} << 20;

  // For 0 to kLargest bytes; 0 bytes get the smallest block.
  static constexpr unsigned class_of(std::size_t bytes) {
    if (bytes <= 256) return bytes == 0 ? 1 : static_cast<unsigned>((bytes + 15) / 16);
    return static_cast<unsigned>(std::bit_width(bytes - 1)) + 8;
  }

  static constexpr std::array<SpanShape, kClasses> kShapes = [] {
    std::array<SpanShape, kClasses> shapes{};
    for (unsigned c = 1; c < kClasses; ++c) shapes[c] = scalloc::shape_of(c);
    return shapes;
  }();
};

}  // namespace heapyard::core
