// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/forked_child.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "tracer/events/current_session.hpp"
#include "tracer/events/exact.hpp"
#include "tracer/events/free_filter.hpp"
#include "tracer/events/mappings.hpp"
#include "tracer/events/modules.hpp"
#include "tracer/events/recorders.hpp"
#include "tracer/events/redirect.hpp"
#include "tracer/events/thread_state.hpp"
#include "tracer/session/poisson.hpp"

namespace heapyard::tracer {

void after_fork_in_child() {
  if (current.session) munmap(current.session.base(), current.session.bytes());
  current.session = Session{};
  tell_own_memory();
  current.activity = &no_activity;
  watch_no_free();
  const bool nobody = current.connection.load() == Connection::kNobodyThere;
  current.connection.store(nobody ? Connection::kNobodyThere : Connection::kNotYet);
  exact.tagging = false;  // and the words of the parent's blocks are gone
  tell_modules_anew();
  if (loaded_late()) {
    recorders.forget();
    redirect_after_fork();
  }
  ThreadState& self = this_thread;
  self.ring = RingWriter{};  // its memory has gone
  self.activity = Activity::kNone;
  self.pended = 0;
  self.random ^= static_cast<std::uint64_t>(getpid()) << 32;
  if (self.to_sample != 0 && current.first_log2_interval != 0) {  // drawn at an interval that the parent has come to
    self.log2_interval = current.first_log2_interval;
    self.to_sample = next_distance(self.random, self.log2_interval);
  }
}

}  // namespace heapyard::tracer
