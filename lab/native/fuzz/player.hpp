// SPDX-License-Identifier: Apache-2.0
// Makes the calls of one thread and judges what they give.
//
// Idea: an oracle of what is legal, not of what one heap does. A request that cannot be met is refused with ENOMEM, one
// that can is not, unless memory is limited. A block is aligned, as large as asked for, apart from all others, and
// keeps its contents: through realloc, in a forked child, after a thread's end, and when another thread frees it. free
// keeps errno. Threads: one Player each; blocks go from one to another through mailboxes.
#pragma once

#include <atomic>
#include <cstdint>

#include "interface.hpp"
#include "live_bytes.hpp"
#include "operation.hpp"
#include "shadow.hpp"

namespace heapyard::fuzz {

// What the players of a process share.
struct Yard {
  Interface own;
  PageOwners pages;
  LiveBytes live;
  std::atomic<Block*> mailboxes[kMailboxes]{};
  std::uint64_t seed = 0;
};

class Player {
 public:
  Player() = default;
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // `blocks`: kSlots of them, for this player's slots.
  void begin(Yard& yard, unsigned thread, Block* blocks);
  // Not kEndThread, which is for who owns the thread. O(bytes that are written and read).
  void play(const Operation& operation);
  // Looks at all blocks and frees them.
  void release_all();

 private:
  void allocate(Block& block, const Operation& operation);
  void reallocate(Block& block, const Operation& operation);
  void release(Block& block, bool sized);
  void use_all(Block& block);
  void fork_child(const Operation& operation);
  void live_as_child(const Operation& operation);
  void take_all_there_is(std::uint64_t seed);
  void look_at_memory() const;
  void look(const Block& block, const char* when) const;
  void* call_for(const Operation& operation, std::size_t& size, std::size_t& alignment, Origin& origin);
  void judge_refusal(std::size_t size, bool throws) const;
  void take_in(Block& block, void* at, std::size_t size, std::size_t alignment, Origin origin);
  // A finding, with the call and its arguments.
  [[noreturn, gnu::format(printf, 3, 4)]] void report(const char* kind, const char* format, ...) const;

  Yard* yard_ = nullptr;
  unsigned thread_ = 0;
  bool limited_ = false;       // null is an answer to any request
  std::uint64_t numbers_ = 0;  // of blocks so far
  Operation now_{};
  LiveBytes::Share live_;
  Block* slots_[kSlots] = {};
};

}  // namespace heapyard::fuzz
