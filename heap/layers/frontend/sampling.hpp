// SPDX-License-Identifier: Apache-2.0
// A front end that counts its blocks for the tracer, made of one that does not.
//
// Idea: all blocks of a size class are counted with the class's size, so the distance to the next sample is a number of
// blocks (tracing/sample_events.hpp). A stack of free blocks hands out again what was just freed, and no refill takes
// part. So malloc itself counts blocks down, in two instructions. When the count reaches its end, malloc takes the slow
// path, as it does when the stack is empty. The counts are the thread's, beside its front end, so the front end below
// knows nothing of them; a thread without a front end counts as well.
// An earlier version had two lists per class: one to hand out from, one of blocks that came back. There a refill knows
// how many blocks it hands out, so malloc counts nothing. But blocks are reused later; this cost larson 3 %, the
// count costs it nothing measurable (docs/tracer.md).
// Cost: O(1). Threads: each its own counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/tracing/sample_events.hpp"

namespace heapyard {

// What a thread knows of its next samples, by class. Zero at first: nothing drawn.
template <unsigned Classes>
class SampleTurns {
 public:
  // Counts the next block; false: the turn of a sample has come, or nothing is drawn.
  bool goes_by(unsigned c) { return --passes_[c] >= 0; }

  // For the slow path, after goes_by(). If the block is a sample, gives the sample's interval and draws the next one;
  // else 0. `counted`: bytes of the class.
  std::uint32_t due(unsigned c, std::size_t counted) {
    std::int64_t& passes = passes_[c];
    if (passes >= 0) return 0;  // the front end below had no block, and this one is counted
    const tracing::SampleEvents* events = tracing::sample_listener();
    if (events == nullptr) [[unlikely]] {
      passes = kUntilAskedAgain;
      return 0;
    }
    const std::uint32_t& drawn = log2_interval_[c];
    if (drawn == 0) {
      draw(c, counted, *events);
      if (passes > 0) {
        --passes;
        return 0;
      }
    }
    const std::uint32_t log2_interval = drawn;
    if (log2_interval != 0) draw(c, counted, *events);
    return log2_interval;
  }

 private:
  static constexpr std::int64_t kUntilAskedAgain = 1 << 10;

  void draw(unsigned c, std::size_t counted, const tracing::SampleEvents& events) {
    const tracing::SampleTurn turn = events.draw(counted);
    passes_[c] = static_cast<std::int64_t>(turn.passes < INT64_MAX ? turn.passes : INT64_MAX);
    log2_interval_[c] = turn.log2_interval;
  }

  std::int64_t passes_[Classes] = {};          // blocks before the next sample; below 0: the next block is one
  std::uint32_t log2_interval_[Classes] = {};  // of that sample; 0: none yet
};

template <StackedFrontEnd Front>
class SampledFront : public Front {
 public:
  using Front::Front;
  using Visit = typename Front::Visit;

  void* allocate(unsigned c) {
    if (!turns_.goes_by(c)) [[unlikely]]
      return nullptr;
    return Front::allocate(c);
  }

  // The interval of the sample that the block is which allocate() did not give, or 0. For a thread that is inside.
  std::uint32_t due(unsigned c, std::size_t counted) { return turns_.due(c, counted); }

  // What allocate() had not at hand, or did not give because of its turn.
  void* refill(const Visit& visit, unsigned c) {
    if (visit.thread != nullptr) {
      if (void* block = Front::pop(*visit.thread, c)) return block;
    }
    return Front::refill(visit, c);
  }

 private:
  static inline constinit thread_local SampleTurns<Front::kClasses> turns_{};
};

// The choice of a composition. As published: nobody listens.
struct NotSampled {
  static constexpr bool kSampled = false;
  template <class Front>
  using Of = Front;
};
struct Sampled {
  static constexpr bool kSampled = true;
  template <class Front>
  using Of = SampledFront<Front>;
};

}  // namespace heapyard
