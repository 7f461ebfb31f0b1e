// SPDX-License-Identifier: Apache-2.0
// How to step from one frame of the stack to its caller, for one address of code, in 28 bits.
//
// Idea: nearly every row of an unwind table says the same three things (where the frame began, where the return address
// lies, where the frame pointer was saved); those go into a word, so that a cache of rules is one array of words.
#pragma once

#include <cstdint>

namespace heapyard::tracer {

struct FrameRule {
  enum Kind : std::uint32_t {
    kUnknown,  // not looked up yet
    kStack,    // the frame begins at SP + offset
    kPointer,  // the frame begins at FP + offset
    kStored,   // its beginning is stored at FP + offset: a function that realigns its stack
    kSignal,   // a signal's frame: the registers lie on the stack
    kEnd,      // the outermost frame
    kTorn,     // no table, or one that says something else
  };
  static constexpr unsigned kBits = 28;

  std::uint32_t word =
      kUnknown;  // from below: 3 bits of kind, 6 of slot, 19 of offset / 8, as that is what is asked for

  constexpr FrameRule() = default;
  constexpr explicit FrameRule(std::uint32_t packed) : word(packed) {}
  // `offset`: bytes. The caller's FP is saved at the frame's beginning - 8 * fp_slot; 0: FP is untouched. They fit().
  constexpr FrameRule(Kind kind, std::int64_t offset, std::uint64_t fp_slot)
      : word(static_cast<std::uint32_t>(kind | fp_slot << 3 |
                                        (static_cast<std::uint64_t>(offset / 8) & 0x7ffff) << 9)) {}
  // On the stack a frame lies outside of those it has called.
  static constexpr bool fits(Kind kind, std::int64_t offset, std::uint64_t fp_slot) {
    return offset % 8 == 0 && offset / 8 >= (kind == kStack ? 1 : -(1 << 18)) && offset / 8 < (1 << 18) && fp_slot < 64;
  }

  constexpr Kind kind() const { return static_cast<Kind>(word & 7); }
  constexpr std::uintptr_t offset() const {
    return static_cast<std::uintptr_t>(std::int64_t{static_cast<std::int32_t>(word << 4) >> 13} * 8);
  }
  // The same of kStack, where it is positive.
  constexpr std::uintptr_t size() const { return std::uintptr_t{word >> 9} * 8; }
  // So many bytes below the frame's beginning the caller's FP is saved; 0: FP is untouched.
  constexpr std::uintptr_t fp_below() const { return word & 0x1f8; }
};

}  // namespace heapyard::tracer
