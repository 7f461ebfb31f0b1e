// SPDX-License-Identifier: Apache-2.0
// Blocks of a size class that are samples, kept where every free takes the slow path.
//
// Idea: the fast path of free must not ask whether its block is a sample. So a sample does not lie in its class's spans
// but in a tree of its own, where it looks like any range. Its free then leaves the fast path by itself (tcmalloc gives
// a sample a span for the same reason). Bit 1 of the word before it says that it is a sample, and the rest of the word
// what it stands for. A zero word follows, as before every range. To the program a sample is as large as any block of
// its class.
// Cost: O(log N) of N samples. Threads: as the tree. Errors: null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "heap/layers/concepts.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/tracing/sample_events.hpp"

namespace heapyard {

// In heaps that are not sampled.
struct NoSampledBlocks {
  static constexpr bool kSampled = false;
  static void trim() {}
  static HeapUsage usage() { return {}; }
};

// Owner: a type of the composition's own, so that its samples are. Tree: the words before its ranges are {a
// multiple of 16, 0}.
template <class Owner, LargeSource Tree>
class SampledBlocks {
 public:
  static constexpr bool kSampled = true;

  // A sample of a class of `counted` bytes, of which `bytes` were asked for. `alignment`: a power of two.
  static void* allocate(std::size_t bytes, std::size_t counted, std::size_t alignment, std::uint32_t log2_interval) {
    const std::size_t lead = alignment > kPrefix ? alignment : kPrefix;
    void* range =
        alignment > kPrefix ? tree_.allocate_aligned(lead + counted, alignment) : tree_.allocate(lead + counted);
    if (range == nullptr) return nullptr;
    char* block = static_cast<char*>(range) + lead;
    auto* prefix = reinterpret_cast<std::uint64_t*>(block) - 2;
    prefix[0] = std::uint64_t{lead} << 32 | counted << 8 | log2_interval << 2 | kMark;
    prefix[1] = 0;
    tell(block, bytes, counted, log2_interval);
    return block;
  }

  // Of a pointer that lies in no span.
  static bool owns(const void* block) { return (prefix_of(block) & 3) == kMark; }

  static void free(void* block) { tree_.free(static_cast<char*>(block) - (prefix_of(block) >> 32)); }

  static std::size_t usable(const void* block) { return prefix_of(block) >> 8 & 0xffffff; }

  // Whether the block, as any of its class, serves `bytes` where it is. It stays a sample.
  static bool resize(void* block, std::size_t bytes) {
    const std::size_t now = usable(block);
    if (bytes > now || bytes < now / 2) return false;
    const tracing::SampleEvents* events = tracing::sample_listener();
    if (events != nullptr && events->returned(block)) tell(block, bytes, now, prefix_of(block) >> 2 & 63);
    return true;
  }

  static void trim() { tree_.trim(); }
  static HeapUsage usage() { return tree_.usage(); }

 private:
  static constexpr std::size_t kPrefix = 16;
  static constexpr std::uint64_t kMark = 2;  // lead << 32 | counted << 8 | log2_interval << 2 | kMark

  static std::uint64_t prefix_of(const void* block) { return static_cast<const std::uint64_t*>(block)[-2]; }

  static void tell(void* block, std::size_t bytes, std::size_t counted, std::uint32_t log2_interval) {
    if (const tracing::SampleEvents* events = tracing::sample_listener())
      events->sampled(block, bytes, counted, log2_interval);
  }

  static inline constinit Tree tree_;
};

// Sampling: the composition's choice (frontend/sampling.hpp).
template <class Sampling, class Owner, class Tree>
using SamplesOf = std::conditional_t<Sampling::kSampled, SampledBlocks<Owner, Tree>, NoSampledBlocks>;

}  // namespace heapyard
