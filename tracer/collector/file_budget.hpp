// SPDX-License-Identifier: Apache-2.0
// What of a trace's limit may still be used.
//
// Idea: how a run ends takes bytes that nobody may refuse: the last records, two compositions, a row per chain and per
// thread, the index. They are put aside, uncompressed, as the tree grows, and there are so many nodes and threads at
// most that they never take all; what is recorded on the way has the rest. Cost: O(1).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/shared.hpp"

namespace heapyard::tracer {

class FileBudget {
 public:
  static constexpr std::uint64_t kSmallest = shared::kLeastTraceBytes;  // bytes, a limit
  static constexpr std::uint64_t kChunk = 64;                           // of a chunk's head and what zstd adds to it
  static constexpr std::uint64_t kModule = 256;

  explicit FileBudget(std::uint64_t limit) : limit_(std::max(limit, kSmallest)) {}

  std::size_t most_nodes() const { return limit_ / 128; }
  std::size_t most_threads() const { return limit_ / 1024; }

  // What the end takes that tells of all these.
  static std::uint64_t aside(std::size_t nodes, std::size_t chains, std::size_t threads, std::size_t chunks) {
    return kEnd + nodes * kNode + chains * kChain + threads * kThread + chunks * kIndexEntry;
  }
  // Of what may be recorded on the way, the share that `used` bytes take.
  double share(std::uint64_t used, std::uint64_t aside) const {
    return aside < limit_ ? static_cast<double>(used) / static_cast<double>(limit_ - aside) : 1;
  }
  // Whether a chunk of `bytes` fits in as well.
  bool room(std::uint64_t used, std::uint64_t aside, std::uint64_t bytes) const {
    return used + aside + bytes + kChunk <= limit_;
  }

 private:
  static constexpr std::uint64_t kEnd = 6u << 10, kNode = 24, kChain = 56, kThread = 40, kIndexEntry = 16;

  std::uint64_t limit_;
};

}  // namespace heapyard::tracer
