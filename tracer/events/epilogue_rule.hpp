// SPDX-License-Identifier: Apache-2.0
// The rule for code of no file, which has no unwind table, where a frame ends right behind its call.
//
// Idea: the trampolines that CPython makes for profilers (from 3.12 on, one for each function of Python) keep no frame
// pointer, but all they do after their call is to give back their stack and return. These instructions say how large
// the frame is. Cost: O(1), and two system calls. Signals: any. Errors: kTorn for any other code. Code that is made
// anew at the same place is taken for what was there: then a chain is wrong from there outwards.
#pragma once

#include <cstdint>
#include <cstring>

#include "heap/os/pages.hpp"
#include "tracer/events/frame_rule.hpp"
#include "tracer/events/readable.hpp"

namespace heapyard::tracer {

// `pc`: a return address.
inline FrameRule rule_by_epilogue(std::uintptr_t pc) {
  constexpr FrameRule kTorn{FrameRule::kTorn, 0, 0};
  constexpr std::uint8_t kReturn = 0xc3, kPopFp = 0x5d, kAdd[] = {0x48, 0x83, 0xc4};  // add $size, %rsp
  const os::KeepErrno keep;
  if (!readable(pc)) return kTorn;
  std::uint8_t code[8];
  std::memcpy(code, reinterpret_cast<const void*>(pc), sizeof code);
  if (code[0] == kReturn) return {FrameRule::kStack, 8, 0};
  if (code[0] == kPopFp && code[1] == kReturn) return {FrameRule::kStack, 16, 2};
  const std::uint8_t size = code[3];
  if (std::memcmp(code, kAdd, sizeof kAdd) == 0 && size % 8 == 0 && size < 0x80 && code[4] == kReturn)
    return {FrameRule::kStack, size + 8, 0};
  return kTorn;
}

}  // namespace heapyard::tracer
