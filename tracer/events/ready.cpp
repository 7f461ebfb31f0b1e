// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/ready.hpp"

#include "heap/os/pages.hpp"
#include "tracer/events/modules.hpp"
#include "tracer/events/recording_guard.hpp"
#include "tracer/events/redirect.hpp"
#include "tracer/events/spare_chains.hpp"
#include "tracer/events/thread_ring.hpp"

namespace heapyard::tracer {
namespace {

// Memory for chains, and a ring of this session.
bool equip(ThreadState& self) {
  if (const std::uint32_t session = current.sessions.load(); self.session != session) {
    self.ring = RingWriter{};
    self.session = session;
  }
  if (self.chains == nullptr && (self.chains = spare_chains.take()) == nullptr) return false;
  if (self.ring) return true;
  if (!take_ring(self)) {
    shared().lost.no_ring.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  seed(self);
  give_ring_back_at_end(self);
  return true;
}

// The only thread to record says once of when its events are.
void tell_since(ThreadState& self) {
  if (std::uint64_t* at = self.ring.reserve(1)) {
    self.since = since_start();
    at[0] = first_word(Kind::kSince, self.since);
    self.ring.publish(1);
  }
}

}  // namespace

bool make_ready(ThreadState& self) {
  const os::KeepErrno keep;
  const SettingUp setting_up;
  self.activity = Activity::kNone;
  redirect_newcomers();
  if (!equip(self)) return false;
  Header& header = shared();
  const std::uint64_t activity = header.activity.take(self.number);
  self.since = 0;
  self.mode = header.mode.load();
  if (self.mode == Mode::kOff) return false;
  if (self.mode == Mode::kExact && Activity::alone(activity)) tell_since(self);
  if (const std::uint32_t now = generation.load(); self.generation != now) {
    self.chains->told.forget();
    self.chains->walker.forget();
    self.generation = now;
  }
  self.activity = activity;
  return true;
}

}  // namespace heapyard::tracer
