// SPDX-License-Identifier: Apache-2.0
// Events of blocks that are known by their address, as samples are: a table of those that live says whose a free is.
//
// Idea: a free whose allocation is still on its way in another ring waits for it; an allocation at an address that
// still lives waits for the free (late_events.hpp). What never comes is counted and forgotten after a while. Cost: O(1)
// expected an event, O(live blocks) to thin them out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/chain_table.hpp"
#include "tracer/collector/late_events.hpp"
#include "tracer/collector/live_blocks.hpp"
#include "tracer/collector/ring_merger.hpp"
#include "tracer/session/poisson.hpp"
#include "tracer/session/sample_set.hpp"

namespace heapyard::tracer {

class SampledEvents {
 public:
  void use_rings(std::uint32_t count) {
    if (count > rings_.size()) rings_.resize(count);
  }
  // What follows in this ring is of another thread.
  void begin_thread(std::uint32_t ring) { rings_[ring] = {}; }

  // `block`: all of it but how many it stands for. `now`: microseconds.
  [[gnu::always_inline]] inline void allocation(std::uint32_t ring, Block block, std::uint64_t size, const Drawn& drawn,
                                                std::uint64_t now, Accounts& accounts) {
    rings_[ring].last_allocation = drawn.log2_interval == 0 ? block.address : 0;
    if (block.chain == ChainTable::kNone) [[unlikely]] {
      ++unknown_chains_;
      return;
    }
    const double stands_for = blocks_of_sample(drawn.bytes, drawn.log2_interval);
    block.bytes = static_cast<std::uint64_t>(static_cast<double>(size) * stands_for + 0.5);
    block.blocks = static_cast<float>(stands_for);
    block.rounding = static_cast<std::uint64_t>(static_cast<double>(drawn.beyond) * stands_for + 0.5);
    if (const std::optional<std::uint64_t> early = late_.take_free(block.address)) [[unlikely]] {
      if (*early >= block.stamp) {
        account_both(block, size, accounts);
        return;
      }
      unknown_free();
    }
    if (live_.find(block.address) != nullptr) [[unlikely]] {
      late_.add_allocation(block, size, now);
      return;
    }
    live_.insert(block);
    accounts.allocated(block, size);
  }

  // `move`: by a realloc that may yet fail.
  [[gnu::always_inline]] inline void release(std::uint32_t ring_index, std::uint64_t address, std::uint64_t stamp,
                                             bool move, std::uint64_t now, Accounts& accounts) {
    RingState& ring = rings_[ring_index];
    const bool temporary = ring.last_allocation == address && !move;
    ring.last_allocation = 0;
    Block* block = live_.find(address);
    if (block == nullptr) {
      late_.add_free(address, stamp, now);
      return;
    }
    if (move) {
      ring.moved = *block;
      ring.moved_size = block->bytes;
    }
    accounts.freed(*block, temporary);
    live_.erase(block);
    if (const auto late = late_.take_allocation(address)) [[unlikely]]
      live_on(late->block, late->size, accounts);
  }

  // That realloc has failed.
  void stay(std::uint32_t ring_index, std::uint64_t address, Accounts& accounts) {
    const RingState& ring = rings_[ring_index];
    if (ring.moved.address != address || live_.find(address) != nullptr) return;
    live_.insert(ring.moved);
    accounts.allocated(ring.moved, ring.moved_size, false);
    accounts.frees -= ring.moved.blocks;
  }

  // What has waited too long, or `all` that waits, is given up.
  void give_up_waiting(bool all, std::uint64_t now, Accounts& accounts);

  // Keeps each live block with the probability it would have been sampled with at this interval, weighted anew, and
  // forgets the others: the way from one interval to a larger one.
  void thin(unsigned log2_interval, std::uint64_t random, SampleSet& set, Accounts& accounts);

  std::size_t live() const { return live_.size(); }
  // Where the samples that live are, the lowest first. O(samples log samples).
  std::vector<std::uint64_t> addresses() const {
    std::vector<std::uint64_t> found;
    for (const Block& block : live_.all()) found.push_back(block.address);
    std::sort(found.begin(), found.end());
    return found;
  }
  std::uint64_t unknown_chains() const { return unknown_chains_; }
  std::uint64_t unknown_frees() const { return unknown_frees_; }
  std::uint64_t lost_frees() const { return lost_frees_; }

 private:
  struct RingState {
    std::uint64_t last_allocation = 0;  // address, if nothing came between
    Block moved;                        // by a realloc that may fail
    std::uint64_t moved_size = 0;
  };

  // What happens seldom is out of line.
  [[gnu::noinline, gnu::cold]] static void account_both(const Block& block, std::uint64_t size, Accounts& accounts) {
    accounts.allocated(block, size);
    accounts.freed(block, false);
  }
  [[gnu::noinline, gnu::cold]] void live_on(const Block& block, std::uint64_t size, Accounts& accounts) {
    live_.insert(block);
    accounts.allocated(block, size);
  }
  void unknown_free() { unknown_frees_ += !thinned_; }  // else of a block that was thinned away

  LiveBlocks live_;
  LateEvents late_;
  std::vector<RingState> rings_;
  std::uint64_t unknown_chains_ = 0, unknown_frees_ = 0, lost_frees_ = 0;
  bool thinned_ = false;
};

}  // namespace heapyard::tracer
