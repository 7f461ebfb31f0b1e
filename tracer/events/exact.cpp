// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/exact.hpp"

#include "tracer/events/chains.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/sampled.hpp"

namespace heapyard::tracer {
namespace {

// Of what happens seldom: out of line.
[[gnu::noinline, gnu::cold]] bool write_seldom(ThreadState& self, Kind kind, Owned owned) {
  return write_owned(self, kind, owned, when(self));
}

// Its address has come again: nobody has seen its free.
void record_unseen_free(ThreadState& self, const Owned& owned) {
  shared().lost.frees.fetch_add(1, std::memory_order_relaxed);
  write_seldom(self, Kind::kGone, owned);
}

// The free of a block of this owner. False: it has none, or nothing is recorded.
bool release(FreeKind free, Kind kind, const Owned& owned) {
  ThreadState& self = this_thread;
  if (free == FreeKind::kMove) self.moved = owned;
  if (!owned.owner) {
    if (mode() == Mode::kExact) shared().lost.unknown.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (self.busy != Busy::kNo) {
    pend(self, kind, owned);
    return true;
  }
  const Recording recording(self);
  return mode() != Mode::kOff && ready(self) && write_owned(self, kind, owned, when(self));
}

}  // namespace

bool prepare_exact() { return exact.tags.prepare(log2_between_blocks()); }

void begin_exact(bool tagging) {
  if (exact.tagging) exact.tags.forget();
  exact.tagging = tagging;
}

// The block is the thread's own until this returns, so its word may follow its record.
void record_owned(ThreadState& self, void* block, std::size_t size, void* frame) {
  const std::uint64_t chain = walked_chain_of(self, frame);
  if (chain == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  Header& header = shared();
  std::uint64_t* word = exact.tags.place_at_once(address, size);
  if (word == nullptr) [[unlikely]] {
    word = exact.tags.place(address, size, header.own_bytes);
    if (word == nullptr) {
      header.lost.set_full.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (const Owned unseen = exact.tags.take(address); unseen.owner) record_unseen_free(self, unseen);
  }
  const Owned owned{Owner::of(chain, self.number), size};
  if (!write_owned(self, Kind::kOwned, owned, when(self))) return;
  BlockTags::put(word, address, owned);
  self.last = address;
}

bool release_slowly(void* block, FreeKind free, Kind kind, Owned owned) {
  return release(free, kind, owned) || free_sampled(block, free);
}

void record_back(ThreadState& self, std::uintptr_t address, const Owned& moved) {
  std::uint64_t* word = exact.tags.place(address, moved.size, shared().own_bytes);
  if (word == nullptr || !write_seldom(self, Kind::kBack, moved)) return;
  BlockTags::put(word, address, moved);
}

}  // namespace heapyard::tracer
