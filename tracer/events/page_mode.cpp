// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/page_mode.hpp"

#include "tracer/events/address_events.hpp"
#include "tracer/events/chains.hpp"
#include "tracer/events/ready.hpp"
#include "tracer/events/recording.hpp"
#include "tracer/events/recording_guard.hpp"

namespace heapyard::tracer {
namespace {

[[gnu::noinline]] void page_taken(void* memory, std::size_t bytes) noexcept {
  void* frame = __builtin_frame_address(0);
  ThreadState& self = this_thread;
  if (at_hand(self) && self.mode == Mode::kPages && memory != nullptr) [[likely]] {
    const Recording recording(self);
    record_page(self, memory, bytes, frame);
  } else {
    record_event(memory, bytes, frame, Source::kPages);
  }
}

void page_returned(void* memory) noexcept { record_free(memory, FreeKind::kFree); }

}  // namespace

constexpr tracing::PageEvents kPageEvents{page_taken, page_returned};

void record_page(ThreadState& self, void* memory, std::size_t bytes, void* frame) {
  const Registers at = caller_of(frame);
  std::uint64_t chain = expected_chain_of(self, at);
  if (chain == 0) chain = other_remembered_chain_of(self, at);
  if (chain == 0) chain = walked_chain_of(self, frame);
  if (chain == 0) return;
  if (std::uint64_t* words = room(self, 4))
    write_allocation(self, words, reinterpret_cast<std::uintptr_t>(memory), stamp(), bytes, chain);
}

}  // namespace heapyard::tracer
