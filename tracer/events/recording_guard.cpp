// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/recording_guard.hpp"

#include "tracer/events/owned_events.hpp"

namespace heapyard::tracer {

void pend(ThreadState& self, Kind kind, const Owned& owned) {
  if (self.chains == nullptr || self.pended == ChainMemory::kPended) {
    shared().lost.nested.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  self.chains->pended[self.pended++] = {kind, owned, since_start()};
}

void write_pended(ThreadState& self) {
  for (std::uint8_t count; (count = self.pended) != 0;) {
    const ChainMemory::Pended last = self.chains->pended[count - 1];
    // Another one may have come meanwhile.
    if (!__atomic_compare_exchange_n(&self.pended, &count, count - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      continue;
    if (!self.ring || !write_owned(self, last.kind, last.owned, last.stamp))
      shared().lost.nested.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace heapyard::tracer
