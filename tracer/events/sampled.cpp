// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/sampled.hpp"

#include <algorithm>

#include "tracer/events/address_events.hpp"
#include "tracer/events/chains.hpp"
#include "tracer/events/countdown.hpp"
#include "tracer/events/current_session.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/ready.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/session/poisson.hpp"

namespace heapyard::tracer {

void record_drawn(ThreadState& self, void* block, std::size_t size, void* frame) {
  Header& header = shared();
  // The interval may have changed since the distance was drawn, and the sample stands for what it was then.
  const unsigned drawn = self.log2_interval;
  const unsigned log2_interval = header.log2_interval.load(std::memory_order_relaxed);
  // A thread's first allocation, and its first after exact mode, come here whatever their size: not drawn by chance.
  const bool undrawn = drawn == 0;
  const bool can = ready(self);
  self.to_sample = next_distance(self.random, log2_interval);
  self.log2_interval = log2_interval;
  if (undrawn) {  // only now the distances begin
    if (!is_due(size)) {
      count_down(size);
      return;
    }
    self.to_sample = next_distance(self.random, log2_interval);
  }
  if (!can || block == nullptr) return;
  const std::uint64_t chain = chain_of(self, frame);
  if (chain == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uint64_t now = stamp();
  if (std::uint64_t* at = place_sample(self, address, now, 4)) {
    const std::uint64_t interval = undrawn ? log2_interval : drawn;
    const std::size_t usable = usable_size(block);
    const std::uint64_t beyond = usable > size ? std::min<std::size_t>(usable - size, UINT32_MAX) : 0;
    write_allocation(self, at, address, now, interval << 56 | size, beyond << 32 | chain);
  }
}

void take_sample_back(std::uintptr_t address) { samples.erase(address); }

bool free_sampled(void* block, FreeKind kind) {
  if (block == nullptr || !current.session || mode() == Mode::kExact) return false;
  ThreadState& self = this_thread;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  // Before anything else: whoever comes in between, the set must not keep an address that is given back.
  const bool sampled = samples.maybe(address) && samples.erase(address);
  if (!sampled && mode() != Mode::kPages) return false;
  const Recording recording(self);
  if (!recording.held()) return false;
  if (mode() != Mode::kOff && ready(self))
    write_short(self, kind == FreeKind::kFree ? Kind::kFree : Kind::kMove, address);
  return true;
}

void record_stays(ThreadState& self, std::uintptr_t address) {
  if (mode() == Mode::kSampled) samples.insert(address, stamp());
  write_short(self, Kind::kStay, address);
}

}  // namespace heapyard::tracer
