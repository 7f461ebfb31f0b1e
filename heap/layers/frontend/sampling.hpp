// SPDX-License-Identifier: Apache-2.0
// Whether a front end can be sampled, and what a thread knows of its next samples.
//
// Idea: all blocks of a size class are counted with the class's size, so the distance to the next sample is a number of
// blocks (tracing/sample_events.hpp). A stack of free blocks hands out again what was just freed, and no refill takes
// part. So malloc itself counts blocks down, in two instructions. When the count reaches its end, malloc takes the slow
// path, as it does when the stack is empty. An earlier version had two lists per class: one to hand out from, one of
// blocks that came back. There a refill knows how many blocks it hands out, so malloc counts nothing. But blocks are
// reused later; this cost larson 3 %, the count costs it nothing measurable (docs/tracer.md). Cost: O(1). Threads: each
// its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/tracing/sample_events.hpp"

namespace heapyard {

// As published: nobody listens.
struct NotSampled {
  static constexpr bool kSampled = false;
  template <unsigned Classes>
  struct Turns {
    static constexpr bool kSampled = false;
    static constexpr bool goes_by(unsigned) { return true; }
  };
};

struct Sampled {
  static constexpr bool kSampled = true;

  // Zero at first: nothing drawn.
  template <unsigned Classes>
  class Turns {
   public:
    static constexpr bool kSampled = true;

    // Whether the next block is no sample for certain. If not, the caller must ask due().
    bool goes_by(unsigned c) { return --passes_[c] >= 0; }

    // For the slow path. If the next block is a sample, gives the sample's interval and draws the next one. Otherwise
    // counts the block and gives 0. `counted`: bytes of the class.
    std::uint32_t due(unsigned c, std::size_t counted) {
      const tracing::SampleEvents* events = tracing::sample_listener();
      std::int64_t& passes = passes_[c];
      const std::uint32_t& drawn = log2_interval_[c];
      if (events == nullptr) [[unlikely]] {
        passes = kUntilAskedAgain;
        return 0;
      }
      if (passes <= 0 && drawn == 0) draw(c, counted, *events);
      if (passes > 0) {
        --passes;
        return 0;
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

  // The same for a thread without a front end, which asks for every block.
  static std::uint32_t due_alone(std::size_t counted) {
    const tracing::SampleEvents* events = tracing::sample_listener();
    if (events == nullptr) return 0;
    const tracing::SampleTurn turn = events->draw(counted);
    return turn.passes == 0 ? turn.log2_interval : 0;
  }
};

}  // namespace heapyard
