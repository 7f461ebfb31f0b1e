// SPDX-License-Identifier: Apache-2.0
// Events of blocks whose owner is in the record, as where every event is recorded: no table of live blocks is needed.
//
// Idea: where stamps of two processors differ by a little, a thread's first event of a chain may come before the chain;
// such an event waits. Cost: O(1) an event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracer/collector/accounts.hpp"
#include "tracer/collector/chain_table.hpp"
#include "tracer/collector/thread_table.hpp"
#include "tracer/session/layout.hpp"
#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

class ExactEvents {
 public:
  [[gnu::always_inline]] inline void take(Kind kind, const Owned& owned, std::uint64_t stamp, const ChainTable& chains,
                                          const ThreadTable& threads, Accounts& accounts) {
    if (account(kind, owned, stamp, chains, threads, accounts)) [[likely]]
      return;
    if (waiting_.size() < kMostWaiting)
      waiting_.push_back({kind, owned, stamp});
    else
      ++given_up_;
  }

  // Takes those that have waited for chains that have come.
  void take_waiting(const ChainTable& chains, const ThreadTable& threads, Accounts& accounts) {
    if (waiting_.empty()) [[likely]]
      return;
    account_waiting(chains, threads, accounts);
  }

  // Events of chains that have not come.
  std::uint64_t unknown_chains() const { return given_up_ + waiting_.size(); }

 private:
  static constexpr std::size_t kMostWaiting = 1u << 14;
  struct Waiting {
    Kind kind;
    Owned owned;
    std::uint64_t stamp;
  };

  // False: its chain is not known.
  [[gnu::always_inline]] static inline bool account(Kind kind, const Owned& owned, std::uint64_t stamp,
                                                    const ChainTable& chains, const ThreadTable& threads,
                                                    Accounts& accounts) {
    const std::uint32_t chain = chains.of(owned.owner.chain());
    if (chain == ChainTable::kNone) [[unlikely]]
      return false;
    Block block;
    block.stamp = stamp;
    block.bytes = owned.size;
    block.thread = threads.of_number(owned.owner.thread());
    block.chain = chain;
    block.blocks = 1;
    if (kind == Kind::kOwned) {
      accounts.allocated(block, owned.size);
    } else if (kind == Kind::kBack) {
      accounts.allocated(block, owned.size, false);
      accounts.frees -= 1;
    } else {
      accounts.freed(block, kind == Kind::kGoneAtOnce);
    }
    return true;
  }

  [[gnu::noinline, gnu::cold]] void account_waiting(const ChainTable& chains, const ThreadTable& threads,
                                                    Accounts& accounts) {
    std::size_t kept = 0;
    for (const Waiting& event : waiting_) {
      if (!account(event.kind, event.owned, event.stamp, chains, threads, accounts)) waiting_[kept++] = event;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(kept), waiting_.end());
  }

  std::vector<Waiting> waiting_;
  std::uint64_t given_up_ = 0;
};

}  // namespace heapyard::tracer
