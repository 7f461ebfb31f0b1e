// SPDX-License-Identifier: Apache-2.0
// Who a block belongs to, in a word: its call chain, the thread that allocated it, its size.
//
// Idea: the traced program remembers that word beside the block (tracer/events/block_tags.hpp) and sends it with the
// block's free, so that the collector needs no table of live blocks.
#pragma once

#include <cstdint>

namespace heapyard::tracer {

// A chain's number is of one session, from 1 on; a thread's counts those that have recorded, and the last one stands
// for all beyond it.
struct Owner {
  static constexpr unsigned kChainBits = 22, kThreadBits = 16, kBits = kChainBits + kThreadBits, kSizeBits = 64 - kBits;
  static constexpr std::uint64_t kChains = std::uint64_t{1} << kChainBits;
  static constexpr std::uint32_t kThreads = 1u << kThreadBits;

  std::uint64_t word = 0;  // 0: nobody

  constexpr std::uint32_t chain() const { return static_cast<std::uint32_t>(word & (kChains - 1)); }
  constexpr std::uint32_t thread() const { return static_cast<std::uint32_t>(word >> kChainBits & (kThreads - 1)); }
  constexpr explicit operator bool() const { return word != 0; }
  static constexpr Owner of(std::uint64_t chain, std::uint64_t thread) { return {thread << kChainBits | chain}; }
};

struct Owned {
  Owner owner;
  std::uint64_t size = 0;  // as asked for

  // Of size << Owner::kBits | owner.
  static constexpr Owned of(std::uint64_t word) {
    return {{word & ((std::uint64_t{1} << Owner::kBits) - 1)}, word >> Owner::kBits};
  }
};

}  // namespace heapyard::tracer
