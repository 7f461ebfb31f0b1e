// SPDX-License-Identifier: Apache-2.0
// What a thread asked of the heap, operation by operation, so that a test can compare it with a model of the workload.
//
// Records lie in an arena of the thread's own and are written as text after the run; the arena counts as bookkeeping.
// Cost of add(): O(1), a first touch per page. Not thread-safe: one log per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arena.hpp"

namespace heapyard::kit {

enum class Call : std::uint8_t { kMalloc, kCalloc, kAligned, kRealloc, kFree };
inline constexpr std::size_t kCalls = 5;
inline constexpr const char* kCallNames[kCalls] = {"malloc", "calloc", "aligned", "realloc", "free"};

class OperationLog {
 public:
  struct Record {
    std::uint64_t object;  // the workload's own name of the object: a slot or a serial number
    std::uint64_t size;    // bytes; 0 for free
    Call call;
  };

  void reserve() { arena_.reserve(kMost * sizeof(Record)); }
  void add(Call call, std::uint64_t object, std::uint64_t size) {
    // Records of a cache line each would waste the log; blocks of them keep the arena's rounding harmless.
    if (used_ % kBlock == 0) {
      auto* const block = arena_.take<Record>(kBlock);
      if (!first_) first_ = block;
    }
    first_[used_++] = {object, size, call};
  }
  std::span<const Record> records() const { return {first_, used_}; }
  std::size_t resident_bytes() const { return arena_.resident_bytes(); }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 28;
  static constexpr std::size_t kBlock = 4096;  // INVARIANT: whole cache lines, so that blocks adjoin
  static_assert(kBlock * sizeof(Record) % kCacheLine == 0);

  Arena arena_;
  Record* first_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace heapyard::kit
