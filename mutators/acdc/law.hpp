// SPDX-License-Identifier: Apache-2.0
// How the size, lifetime and number of objects of the next lifetime-size-class are drawn.
//
// PaperLaw realises section 2.3 of the paper: a size class uniform in the exponents, a size uniform inside it, a
// liveness uniform in its range, and a count quadratic in both. The paper's printed formula divides by the factor it
// multiplies with; the product alone is meant, as in the published code. O(1) per draw; per-thread state is the Random
// alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/random.hpp"
#include "options.hpp"

namespace heapyard::acdc {

enum class Shape : std::uint8_t { kList, kTree };

// Words at the start of an object that link it to others: next, or left and right child.
constexpr std::uint32_t header_bytes(Shape shape) { return shape == Shape::kList ? 8 : 16; }

struct Draw {
  std::uint64_t size;  // bytes asked for per object
  std::uint32_t count;
  std::uint32_t liveness;  // ticks
  Shape shape;
  bool shared;
  bool permanent;
};

constexpr unsigned exponent(std::uint64_t size) { return static_cast<unsigned>(std::bit_width(size)) - 1; }

// Number of objects of a class of exponent c: (S - c + 1)^2 (L - q + 1)^2, S the exponent above the largest size.
constexpr std::uint64_t count_law(unsigned top, unsigned c, std::uint64_t max_liveness, std::uint64_t liveness) {
  const std::uint64_t a = top - c + 1, b = max_liveness - liveness + 1;
  return a * a * b * b;
}

constexpr unsigned top_exponent(std::uint64_t max_size) { return static_cast<unsigned>(std::bit_width(max_size)); }

// A share in percent: exact, or the published code's draw from 101 values.
inline bool percent(Random& random, std::int64_t share, bool compat) {
  return compat ? static_cast<std::int64_t>(random.below(101)) < share
                : random.percent(static_cast<std::uint64_t>(share));
}

inline Draw draw_paper(const Options& o, Random& random) {
  Draw draw{};
  draw.liveness = static_cast<std::uint32_t>(random.between(o.min_liveness, o.max_liveness));
  const unsigned low = exponent(o.min_size), high = exponent(o.max_size);
  const unsigned c = static_cast<unsigned>(random.between(low, high));
  const std::uint64_t floor = std::max<std::uint64_t>(std::uint64_t{1} << c, o.min_size);
  const std::uint64_t ceiling = std::min<std::uint64_t>((std::uint64_t{2} << c) - 1, o.max_size);
  draw.size = random.between(floor, ceiling);
  const bool list = o.compat ? [&] {  // published code: 101 values, the last of them a list again
    const auto value = static_cast<std::int64_t>(random.below(101));
    return value < o.list_ratio || value == 100;
  }()
                             : random.percent(o.list_ratio);
  draw.shape = list ? Shape::kList : Shape::kTree;
  draw.shared = o.shared && percent(random, o.shared_ratio, o.compat);
  draw.permanent = o.permanent_ratio && percent(random, o.permanent_ratio, false);
  if (o.objects) {
    draw.count = static_cast<std::uint32_t>(o.objects);
    if (o.compat) {  // published code: a fixed count pins size and liveness, though both are drawn
      draw.size = o.min_size;
      draw.liveness = static_cast<std::uint32_t>(o.min_liveness);
    }
  } else {
    draw.count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(count_law(top_exponent(o.max_size), c, o.max_liveness, draw.liveness), UINT32_MAX));
  }
  // The links live in the object; the published code gives even lists the room of a tree node.
  draw.size = std::max<std::uint64_t>(draw.size, o.compat ? 16 : header_bytes(draw.shape));
  return draw;
}

}  // namespace heapyard::acdc
