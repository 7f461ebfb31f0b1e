// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/within_heap.hpp"

#include "tracer/events/chains.hpp"
#include "tracer/events/countdown.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/ready.hpp"
#include "tracer/events/recording.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/events/sampled.hpp"
#include "tracer/session/poisson.hpp"

namespace heapyard::tracer {
namespace {

// Also for a thread that has recorded nothing, so without its ring.
tracing::SampleTurn draw_turn(std::size_t counted) noexcept {
  ThreadState& self = this_thread;
  if (self.busy == Busy::kSettingUp || !connected()) return {until_asked_again() / (counted + 1) + 1, 0};
  if (mode() != Mode::kSampled) return {~std::uint64_t{0}, 0};  // it will not be sampled again
  seed(self);
  const std::uint32_t log2_interval = shared().log2_interval.load(std::memory_order_relaxed);
  return {next_distance(self.random, log2_interval) / (counted + 1), log2_interval};
}

void record_sample(void* block, std::size_t bytes, std::size_t counted, std::uint32_t log2_interval, void* frame) {
  ThreadState& self = this_thread;
  const Recording recording(self);
  if (!recording.held() || !connected() || mode() != Mode::kSampled || !ready(self)) return;
  const std::uint64_t chain = chain_of(self, frame), now = stamp();
  if (chain == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (std::uint64_t* at = place_sample(self, address, now, 5)) {
    at[0] = first_word(Kind::kSample, address);
    at[1] = now;
    at[2] = std::uint64_t{log2_interval} << 56 | bytes;
    at[3] = chain;
    at[4] = counted;
    self.ring.publish(5);
  }
}

[[gnu::noinline]] void sample_taken(void* block, std::size_t bytes, std::size_t counted,
                                    std::uint32_t log2_interval) noexcept {
  record_sample(block, bytes, counted, log2_interval, __builtin_frame_address(0));
}
[[gnu::noinline]] void large_taken(void* block, std::size_t bytes) noexcept {
  if (is_due(bytes))
    record_allocation(block, bytes, __builtin_frame_address(0), 0);
  else
    count_down(bytes);
}
bool sample_returned(void* block) noexcept { return record_free(block, FreeKind::kFree); }

}  // namespace

constexpr tracing::SampleEvents kSampleEvents{draw_turn, sample_taken, large_taken, sample_returned};

}  // namespace heapyard::tracer
