// SPDX-License-Identifier: Apache-2.0
// Which x86-64 instructions read and write memory in one step: those with a lock prefix, and xchg with memory. O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heapyard::simulator {

inline bool is_atomic(std::span<const std::uint8_t> code) {
  for (std::size_t at = 0; at < code.size(); ++at) {
    const std::uint8_t byte = code[at];
    switch (byte) {
      case 0xf0:
        return true;
      case 0x26:
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x64:
      case 0x65:  // segments
      case 0x66:
      case 0x67:
      case 0xf2:
      case 0xf3:
        continue;
      default:
        if (byte >= 0x40 && byte <= 0x4f) continue;  // REX
        return (byte == 0x86 || byte == 0x87) && at + 1 < code.size() && code[at + 1] < 0xc0;
    }
  }
  return false;
}

}  // namespace heapyard::simulator
