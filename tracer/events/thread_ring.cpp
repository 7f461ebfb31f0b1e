// SPDX-License-Identifier: Apache-2.0
#include "tracer/events/thread_ring.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tracer/events/current_session.hpp"
#include "tracer/events/recorders.hpp"
#include "tracer/events/spare_chains.hpp"

namespace heapyard::tracer {
namespace {

constinit pthread_key_t at_thread_end = 0;
constinit bool has_key = false;

// What other libraries allocate and free later in the thread's end takes a ring anew, as does a signal handler here.
void give_ring_back(void*) {
  ThreadState& self = this_thread;
  if (loaded_late()) recorders.leave(&self);
  const ThreadState was = std::exchange(self, ThreadState{});
  if (was.chains != nullptr) spare_chains.give(was.chains);
  if (was.ring) was.ring.ring()->owner.store(0, std::memory_order_release);
}

// False: another thread has it, or has had it meanwhile.
bool take(ThreadState& self, std::uint32_t index, std::uint32_t id) {
  Header& header = shared();
  Ring& ring = current.session.ring(index);
  std::uint64_t nobody = 0;
  if (!ring.owner.compare_exchange_strong(nobody, id, std::memory_order_acquire)) return false;
  RingWriter writer(ring, current.session.words(index), current.session.ring_bytes(), header.bell);
  std::uint64_t* at = writer.reserve(1);
  if (at == nullptr) {
    ring.owner.store(0, std::memory_order_release);
    return false;
  }
  self.number = std::min(header.threads.fetch_add(1, std::memory_order_relaxed), Owner::kThreads - 1);
  const std::uint64_t owner = std::uint64_t{self.number} << 32 | id;
  ring.owner.store(owner, std::memory_order_relaxed);
  at[0] = first_word(Kind::kThread, owner);
  writer.publish(1);
  std::uint32_t highest = header.highest_ring.load();
  while (highest < index + 1 && !header.highest_ring.compare_exchange_weak(highest, index + 1)) {
  }
  self.ring = writer;
  self.chains->walker.forget_told();
  if (loaded_late()) recorders.enter(index, &self);
  return true;
}

}  // namespace

bool take_ring(ThreadState& self) {
  const auto id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  const std::uint64_t words = current.session.ring_bytes() / 8;
  for (const std::uint64_t most : {words / 2, words}) {
    bool fuller = false;
    for (std::uint32_t index = 0; index < shared().rings; ++index) {
      const Ring& ring = current.session.ring(index);
      if (ring.owner.load(std::memory_order_relaxed) != 0) continue;
      if (ring.head.load() - ring.tail.load() >= most)
        fuller = true;
      else if (take(self, index, id))
        return true;
    }
    if (!fuller) break;
  }
  return false;
}

void give_ring_back_at_end(ThreadState& self) {
  if (has_key) pthread_setspecific(at_thread_end, &self);
}

void give_rings_back_at_thread_ends() { has_key = pthread_key_create(&at_thread_end, give_ring_back) == 0; }

}  // namespace heapyard::tracer
