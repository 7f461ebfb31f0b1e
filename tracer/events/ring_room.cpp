// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/ring_room.hpp"

#include <time.h>

#include "heap/os/pages.hpp"
#include "tracer/events/current_session.hpp"

namespace heapyard::tracer {
namespace {

// A nap is 50 us by name and about 100 us in fact.
constexpr int kNapsSampled = 300, kNapsUntilGone = 10'000;

}  // namespace

std::uint64_t* wait_for_room(ThreadState& self, std::size_t words) {
  const os::KeepErrno keep;
  Header& header = shared();
  header.waits.fetch_add(1, std::memory_order_relaxed);
  const timespec nap{0, 50'000};
  std::uint64_t tail = self.ring.ring()->tail.load(std::memory_order_relaxed);
  std::uint64_t* at = nullptr;
  for (int naps = 0, still = 0; (at = self.ring.reserve(words)) == nullptr && mode() != Mode::kOff; ++naps) {
    const bool sampled = mode() == Mode::kSampled;
    if (sampled && naps == (self.gave_up ? 0 : kNapsSampled)) break;
    nanosleep(&nap, nullptr);
    header.naps.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t now = self.ring.ring()->tail.load(std::memory_order_relaxed);
    still = now == tail ? still + 1 : 0;
    tail = now;
    if (still == kNapsUntilGone) stop();
  }
  self.gave_up = at == nullptr;
  if (at == nullptr) header.lost.ring_full.fetch_add(1, std::memory_order_relaxed);
  return at;
}

}  // namespace heapyard::tracer
