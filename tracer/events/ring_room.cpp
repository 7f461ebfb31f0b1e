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

std::uint64_t* wait_for_room(ThreadState& self, std::size_t words, Loss loss) {
  const os::KeepErrno keep;
  Header& header = shared();
  header.waits.fetch_add(1, std::memory_order_relaxed);
  const timespec nap{0, 50'000};
  std::uint64_t tail = self.ring.ring()->tail.load(std::memory_order_relaxed);
  std::uint64_t* at = nullptr;
  for (int naps = 0, still = 0; (at = self.ring.reserve(words)) == nullptr && mode() != Mode::kOff; ++naps) {
    const bool sampled = mode() == Mode::kSampled;
    if (sampled && self.gave_up == GaveUp::kALongWait) break;
    if (sampled && loss == Loss::kSample && naps == (self.gave_up == GaveUp::kNo ? kNapsSampled : 0)) break;
    nanosleep(&nap, nullptr);
    header.naps.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t now = self.ring.ring()->tail.load(std::memory_order_relaxed);
    still = now == tail ? still + 1 : 0;
    tail = now;
    if (still == kNapsUntilGone && sampled) {
      self.gave_up = GaveUp::kALongWait;
    } else if (still == kNapsUntilGone) {
      stop();
    }
  }
  if (at != nullptr) self.gave_up = GaveUp::kNo;
  if (at == nullptr && self.gave_up == GaveUp::kNo) self.gave_up = GaveUp::kABurst;
  if (at == nullptr) header.lost.ring_full.fetch_add(1, std::memory_order_relaxed);
  return at;
}

}  // namespace heapyard::tracer
