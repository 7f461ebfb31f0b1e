// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/chains.hpp"

#include <algorithm>

#include "tracer/events/chain_numbers.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/modules.hpp"
#include "tracer/events/python_frames.hpp"
#include "tracer/events/python_runtime.hpp"
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

// Puts the words of a script's frames into the chain just walked, where each evaluation of theirs is on the stack;
// those that are left, for whose evaluations there are no frames, to its end. Returns how many words that takes;
// `whole` has kFrames of them at most.
unsigned merge_script(ChainMemory& chains, unsigned script_words) {
  unsigned count = 0, next = 0;
  const auto put_evaluation = [&] {
    for (; next < script_words && chains.script[next] != 0; ++next) {
      if (count < kFrames) chains.whole[count] = chains.script[next];
      ++count;
    }
    ++next;
  };
  const unsigned native = chains.walker.frames();
  for (unsigned index = 0; index < native; ++index) {
    const std::uintptr_t pc = chains.walker.frame(index);
    if (python.evaluates(pc)) put_evaluation();
    if (count < kFrames) chains.whole[count] = pc;
    ++count;
  }
  while (next < script_words) put_evaluation();
  return count;
}

// Sends the collector `count` words of the chain with a script's frames. False: there was no room.
[[gnu::noinline]] bool tell_whole_chain(ThreadState& self, std::uint64_t number, ChainEnd end, unsigned count) {
  std::uint64_t* words = room(self, 2 + count);
  if (words == nullptr) return false;
  words[0] = first_word(Kind::kChain, count | static_cast<std::uint64_t>(end) << 32);
  words[1] = number;
  std::copy_n(self.chains->whole, count, words + 2);
  self.ring.publish(2 + count);
  self.chains->walker.forget_told();  // what the next one shares with this one is not known
  self.chains->told.add(number);
  return true;
}

// As number_of(), with the functions of the script that the thread is in.
std::uint64_t number_with_script(ThreadState& self, ChainWalker::Chain chain) {
  if (!python) return number_of(self, chain);
  bool cut = false;
  const unsigned words = python_frames(self, self.chains->script, 2 * kFrames, cut);
  if (words == 0) return number_of(self, chain);
  std::uint64_t hash = chain.hash;
  for (unsigned index = 0; index < words; ++index)
    hash = (hash ^ self.chains->script[index]) * 0xbf58476d1ce4e5b9u, hash ^= hash >> 29;
  const std::uint64_t number = hash == 0 ? 0 : numbers.of(hash);
  if (number == 0) {
    shared().lost.set_full.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (self.chains->told.has(number)) return number;
  const unsigned count = merge_script(*self.chains, words);
  const ChainEnd end = cut || count > kFrames ? ChainEnd::kCut : chain.end;
  return tell_whole_chain(self, number, end, std::min<unsigned>(count, kFrames)) ? number : 0;
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
  // A script's functions are not on the stack, by which a chain is remembered.
  if (current.with_python) return number_with_script(self, chain);
  numbers.expect(chain.hash);
  ChainMemo::Entry* entry = chains.walker.remember_in(chains.memo, seed_of(self));
  const std::uint64_t number = number_of(self, chain);
  if (entry != nullptr) entry->number = static_cast<std::uint32_t>(number);
  return number;
}

std::uint64_t chain_of(ThreadState& self, void* frame) {
  const ChainWalker::Chain chain = walk(self, caller_of(frame));
  const bool all = self.mode == Mode::kExact && !current.with_python;
  return all ? number_of(self, chain) : number_with_script(self, chain);
}

}  // namespace heapyard::tracer
