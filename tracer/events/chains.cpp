// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/chains.hpp"

#include "tracer/events/chain_numbers.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/modules.hpp"
#include "tracer/events/ring_room.hpp"

namespace heapyard::tracer {
namespace {

constinit ChainNumbers numbers;

// A generation is part of the hash: after modules have gone, the same addresses are other chains.
std::uint64_t seed_of(const ThreadState& self) { return 0x9e3779b97f4a7c15u + self.generation; }

// The chain of callers of the function with this frame.
ChainWalker::Chain walk(ThreadState& self, const Registers& at) {
  Header& header = shared();
  // Where there are samples only, the next one finds little as it was.
  const unsigned most = self.mode == Mode::kSampled ? header.depth : ChainWalker::kMost;
  const ChainWalker::Chain chain =
      self.chains->walker.walk(rules, at, self.stack.end_above(at.sp - 16), header.depth, most, seed_of(self),
                               [&](const dl_find_object& object) { send_module(self, object); });
  if (chain.end == ChainEnd::kTorn) header.lost.chains_torn.fetch_add(1, std::memory_order_relaxed);
  return chain;
}

// Sends the collector the chain just walked, which is new to this thread. False: there was no room.
[[gnu::noinline]] bool tell_chain(ThreadState& self, std::uint64_t number, ChainEnd end) {
  ChainWalker& walker = self.chains->walker;
  const unsigned told = walker.told_frames(), count = walker.frames() - told;
  std::uint64_t* words = room(self, 2 + count);
  if (words == nullptr) return false;
  words[0] = first_word(Kind::kChain, count | static_cast<std::uint64_t>(end) << 32);
  words[1] = static_cast<std::uint64_t>(told) << 32 | number;
  for (unsigned index = 0; index < count; ++index) words[2 + index] = walker.frame(index);
  self.ring.publish(2 + count);
  walker.note_told();
  self.chains->told.add(number);
  return true;
}

// The number of the chain just walked, which the collector has been sent; 0 if there was no room to send or to number
// it.
std::uint64_t number_of(ThreadState& self, ChainWalker::Chain chain) {
  const std::uint64_t number = numbers.of(chain.hash);
  if (number == 0) [[unlikely]] {
    shared().lost.set_full.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  return self.chains->told.has(number) || tell_chain(self, number, chain.end) ? number : 0;
}

}  // namespace

bool prepare_chains() { return numbers.prepare(); }

std::uint64_t other_remembered_chain_of(ThreadState& self, const Registers& at) {
  return self.chains->walker.recall_other(self.chains->memo, at, self.stack.readable_until(at.sp - 8));
}

// What is needed is fetched from memory before, else each would be waited for in turn.
std::uint64_t walked_chain_of(ThreadState& self, void* frame) {
  ChainMemory& chains = *self.chains;
  const Registers at = caller_of(frame);
  const std::uintptr_t end = self.stack.readable_until(at.sp - 8);
  chains.memo.expect(at, end, [](std::uintptr_t pc) { rules.expect(pc); });
  const ChainWalker::Chain chain = walk(self, at);
  numbers.expect(chain.hash);
  ChainMemo::Entry* entry = chains.walker.remember_in(chains.memo, seed_of(self));
  const std::uint64_t number = number_of(self, chain);
  if (entry != nullptr) entry->number = static_cast<std::uint32_t>(number);
  return number;
}

std::uint64_t chain_of(ThreadState& self, void* frame) { return number_of(self, walk(self, caller_of(frame))); }

}  // namespace heapyard::tracer
