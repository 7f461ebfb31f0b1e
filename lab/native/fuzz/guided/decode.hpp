// SPDX-License-Identifier: Apache-2.0
// Bytes as operations of one thread, for a fuzzer that changes bytes.
//
// Idea: six bytes are one operation, so a byte that changes changes one call and leaves the rest as they were. Sizes
// and alignments are an exponent and a remainder: one bit more or less is another power of two. Every string of bytes
// is legal. Nothing forks and no thread ends, for all is played in the fuzzer's own process. Cost: O(1) an operation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../operation.hpp"

namespace heapyard::fuzz {

inline constexpr std::size_t kOperationBytes = 6;

// `bytes`: kOperationBytes of them.
inline Operation decode(std::span<const std::uint8_t, kOperationBytes> bytes) {
  // What a program calls most stands more than once. No call that another thread or process has part in.
  constexpr Call kCallsOfBytes[] = {Call::kMalloc,       Call::kMalloc,        Call::kMalloc,
                                    Call::kCalloc,       Call::kRealloc,       Call::kRealloc,
                                    Call::kRelease,      Call::kRelease,       Call::kRelease,
                                    Call::kUseAll,       Call::kLook,          Call::kAlignedAlloc,
                                    Call::kMemalign,     Call::kPosixMemalign, Call::kValloc,
                                    Call::kPvalloc,      Call::kNew,           Call::kNewArray,
                                    Call::kNewNothrow,   Call::kNewAligned,    Call::kNewArrayAligned,
                                    Call::kReallocarray, Call::kAsk,           Call::kTrim};
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  constexpr unsigned kMostBits = 27, kAlignments = 19;
  Operation operation{};
  operation.call = kCallsOfBytes[bytes[0] % std::size(kCallsOfBytes)];
  operation.slot = static_cast<std::uint16_t>(bytes[1]) % kSlots;
  const std::uint64_t rest = bytes[3] | std::uint64_t{bytes[4]} << 8;
  const unsigned exponent = bytes[2] % 32;
  if (exponent < kMostBits) {
    operation.size = (std::uint64_t{1} << exponent) + (rest << exponent >> 16);
    if (bytes[2] >= 128) operation.size -= std::min<std::uint64_t>(operation.size, 16);
  } else {  // what no machine has, where sums overflow, and next to nothing
    operation.size =
        std::array{kTop - rest, kTop / 2 - rest, kTop / 2 + rest, (kTop >> 16) + rest, rest % 32}[exponent - kMostBits];
  }
  switch (operation.call) {
    case Call::kCalloc:
    case Call::kReallocarray:
      operation.other = bytes[5] % 8;
      break;
    case Call::kRelease:
      operation.size = 0;
      operation.other = bytes[5] % 2;
      break;
    case Call::kLook:
    case Call::kUseAll:
    case Call::kAsk:
    case Call::kTrim:
      operation.size = 0;
      break;
    case Call::kAlignedAlloc:
    case Call::kPosixMemalign:
    case Call::kMemalign:
    case Call::kNewAligned:
    case Call::kNewArrayAligned:
      operation.other = std::uint64_t{8} << bytes[5] % kAlignments;
      break;
    default:
      break;
  }
  return operation;
}

}  // namespace heapyard::fuzz
