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
  Kind kind = kUnknown;
  std::int32_t offset = 0;    // bytes, a multiple of 8
  std::uint32_t fp_slot = 0;  // the caller's FP is saved at the frame's beginning - 8 * fp_slot; 0: FP is untouched

  static constexpr unsigned kBits = 28;

  // Whether the rule fits: 19 bits of offset, 6 of slot; and on the stack a frame lies outside of those it has called.
  bool fits() const {
    return offset % 8 == 0 && offset / 8 >= (kind == kStack ? 1 : -(1 << 18)) && offset / 8 < (1 << 18) && fp_slot < 64;
  }
  std::uint32_t packed() const {
    return kind | fp_slot << 3 | (static_cast<std::uint32_t>(offset / 8) & 0x7ffffu) << 9;
  }
  static FrameRule unpacked(std::uint32_t word) {
    return {static_cast<Kind>(word & 7), (static_cast<std::int32_t>(word << 4) >> 13) * 8, word >> 3 & 0x3f};
  }
};

}  // namespace heapyard::tracer
