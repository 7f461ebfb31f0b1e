// SPDX-License-Identifier: Apache-2.0
// Block sizes as data: one look into a table of bytes finds the size that serves a request.
//
// Idea: BFM's first table (paper, section 2.1), indexed by the request in words. Cost: O(1), one load. The sizes are a
// template argument, so tables that waste less and tables that reuse more can be compared as variants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace heapyard::core {

inline constexpr std::size_t kWord = sizeof(void*);

// Block sizes in words, rising; a request gets the smallest that holds it.
template <std::size_t... Words>
class SizeSteps {
 public:
  static constexpr unsigned kClasses = sizeof...(Words);
  static constexpr std::array<std::uint16_t, kClasses> kWords = {Words...};
  static constexpr std::size_t kLargest = kWords[kClasses - 1] * kWord;  // bytes

  // Whether small_class_of(), the only way there is, may be asked.
  static constexpr bool is_small(std::size_t bytes) { return bytes <= kLargest; }
  static unsigned small_class_of(std::size_t bytes) { return kTable[(bytes + kWord - 1) / kWord]; }

  // For 0 to kLargest bytes; 0 bytes get the smallest block.
  static unsigned class_of(std::size_t bytes) { return small_class_of(bytes); }

  static constexpr std::size_t bytes_of(unsigned size_class) { return kWords[size_class] * kWord; }

 private:
  static constexpr auto kTable = [] {
    static_assert(kClasses <= 256);
    std::array<std::uint8_t, kWords[kClasses - 1] + 1> table{};
    for (std::size_t words = 0; words < table.size(); ++words) {
      unsigned c = 0;
      while (kWords[c] < words) ++c;
      table[words] = static_cast<std::uint8_t>(c);
    }
    return table;
  }();
};

}  // namespace heapyard::core
