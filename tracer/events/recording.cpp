// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/recording.hpp"

#include <cstring>
#include <utility>

#include "heap/os/pages.hpp"
#include "tracer/events/chains.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/exact.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/page_mode.hpp"
#include "tracer/events/python_objects.hpp"
#include "tracer/events/ready.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/events/redirect.hpp"
#include "tracer/events/sampled.hpp"

namespace heapyard::tracer {

thread_local constinit ThreadState this_thread;

namespace {

[[gnu::noinline]] void* record_slowly(void* block, std::size_t size, void* frame) {
  ThreadState& self = this_thread;
  if (at_hand(self) && self.mode == Mode::kExact && block != nullptr) [[likely]] {
    const Recording recording(self);
    record_owned(self, block, size, frame);
  } else {
    record_event(block, size, frame, Source::kMalloc);
  }
  return block;
}

// What follows the short ways, where frees have waited for their end.
[[gnu::noinline, gnu::cold]] void* after_pended(void* block) {
  const Recording recording(this_thread);
  return block;
}
[[gnu::noinline, gnu::cold]] bool after_pended() {
  const Recording recording(this_thread);
  return true;
}

// What follows in remembered_chain(), where the chain is not the expected one.
[[gnu::noinline]] std::uint64_t other_remembered_chain(ThreadState& self, void* frame) {
  const std::uint64_t chain = other_remembered_chain_of(self, caller_of(frame));
  end_short_recording(self);
  return chain;
}

}  // namespace

void record_event(void* block, std::size_t size, void* frame, Source source) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held()) return;
  if (!connected()) {
    self.to_sample = until_asked_again();
    return;
  }
  const Mode now = mode();
  if (now == Mode::kOff || (now == Mode::kPages && source != Source::kPages)) {
    self.to_sample = until_asked_again();
    const os::KeepErrno keep;
    if (now == Mode::kOff) {
      give_calls_back();
      if (loaded_late()) give_python_objects_back();
    }
  } else if (now == Mode::kSampled) {
    record_drawn(self, block, size, frame);
  } else {
    const bool can = ready(self) && block != nullptr;
    if (now == Mode::kExact) self.to_sample = 0;
    if (can) (now == Mode::kExact ? record_owned : record_page)(self, block, size, frame);
  }
}

// Before the block is there: a chain is the same before and after, and what is remembered comes meanwhile.
[[gnu::noinline]] std::uint64_t remembered_chain(void* frame) {
  ThreadState& self = this_thread;
  if (self.mode != Mode::kExact || self.busy != Busy::kNo) return 0;
  begin_short_recording(self);
  const std::uint64_t chain = expected_chain_of(self, caller_of(frame));
  if (chain == 0) return other_remembered_chain(self, frame);
  end_short_recording(self);
  return chain;
}

// Both end in a jump to whatever is rare: what often happens saves no registers.
[[gnu::noinline]] void* record_allocation(void* block, std::size_t size, void* frame, std::uint64_t chain) {
  ThreadState& self = this_thread;
  if (!record_quickly(self, block, size, chain)) [[unlikely]]
    return record_slowly(block, size, frame);
  if (self.pended != 0) [[unlikely]]
    return after_pended(block);
  return block;
}

[[gnu::noinline]] bool record_free(void* block, FreeKind kind) {
  if (block == nullptr || !exact.tagging) return free_sampled(block, kind);
  ThreadState& self = this_thread;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const Owned owned = exact.tags.take(address);
  const bool at_once = self.last == address;
  self.last = 0;
  const Kind record = kind == FreeKind::kMove ? Kind::kGoneMove : at_once ? Kind::kGoneAtOnce : Kind::kGone;
  if (!owned.owner || kind != FreeKind::kFree || !release_quickly(self, record, owned)) [[unlikely]]
    return release_slowly(block, kind, record, owned);
  return self.pended == 0 || after_pended();
}

void record_stay(void* block) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !current.session || mode() == Mode::kOff || !ready(self)) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (const Owned moved = std::exchange(self.moved, {}); moved.owner)
    record_back(self, address, moved);
  else
    record_stays(self, address);
}

void record_mark(const char* name) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !connected() || mode() == Mode::kOff || !ready(self)) return;
  const std::size_t length = std::strlen(name) < 200 ? std::strlen(name) : 200, words = 2 + (length + 7) / 8;
  std::uint64_t* at = self.ring.reserve(words);
  if (at == nullptr) at = wait_for_room(self, words, Loss::kMark);
  if (at != nullptr) {
    at[words - 1] = 0;
    at[0] = first_word(Kind::kMark, length);
    at[1] = stamp();
    std::memcpy(at + 2, name, length);
    self.ring.publish(words);
  }
}

}  // namespace heapyard::tracer
