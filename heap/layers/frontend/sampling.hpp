// Whether a front end can be sampled, and what a thread knows of its next samples.
//
// Idea: a stack of free blocks hands out again what was just freed, and never tells how many went by. A front end that
// is sampled keeps two lists per class, one that it hands out and one of what came back: then every refill knows how
// many allocations lie before the next one (os/sample_events.hpp). Cost: the fast paths are those of one list; a
// refill more per batch, and blocks are reused later, when their cache lines may have cooled. Threads: each its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/os/sample_events.hpp"

namespace heapyard {

// As published: one list, nobody listens.
struct NotSampled {
  static constexpr bool kSampled = false;
  template <unsigned Classes>
  struct Turns {};
};

struct Sampled {
  static constexpr bool kSampled = true;

  // Zero at first: nothing drawn.
  template <unsigned Classes>
  class Turns {
   public:
    // The interval of a sample whose turn it is, and the next turn is drawn; 0: it is none's. `counted`: bytes of the
    // class. When all that may_hand_out() has granted has been handed out.
    std::uint32_t due(unsigned c, std::size_t counted) {
      const os::SampleEvents* events = os::sample_listener();
      if (events == nullptr) [[unlikely]]
        return 0;
      os::SampleTurn& turn = turns_[c];
      if (turn.passes != 0) return 0;
      if (turn.log2_interval == 0) turn = events->draw(counted);
      if (turn.passes != 0 || turn.log2_interval == 0) return 0;
      const std::uint32_t log2_interval = turn.log2_interval;
      turn = events->draw(counted);
      return log2_interval;
    }

    // How many blocks may be handed out before the thread comes again: at most `most`, at least one.
    unsigned may_hand_out(unsigned c, unsigned most) const {
      const std::uint64_t passes = turns_[c].passes;
      return os::sample_listener() == nullptr || passes >= most ? most
             : passes == 0                                      ? 1
                                                                : static_cast<unsigned>(passes);
    }

    // So many will be.
    void hands_out(unsigned c, unsigned count) {
      std::uint64_t& passes = turns_[c].passes;
      passes -= passes < count ? passes : count;
    }

   private:
    os::SampleTurn turns_[Classes] = {};
  };

  // The same for a thread without a front end, which comes every time.
  static std::uint32_t due_alone(std::size_t counted) {
    const os::SampleEvents* events = os::sample_listener();
    if (events == nullptr) return 0;
    const os::SampleTurn turn = events->draw(counted);
    return turn.passes == 0 ? turn.log2_interval : 0;
  }
};

}  // namespace heapyard
