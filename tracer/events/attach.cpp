// SPDX-License-Identifier: Apache-2.0
// What the injector has a process call that runs already, once it has loaded this library (tracer/injector).
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tracer/events/current_session.hpp"
#include "tracer/events/modules.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/recorders.hpp"
#include "tracer/events/redirect.hpp"

namespace heapyard::tracer {
namespace {

enum class AttachResult { kTraced, kTracedAlready, kNobodyThere };

std::atomic<pid_t> attaching{0};  // the process, while a thread of it is within; a child forked meanwhile is another
constexpr int kTurns = 100'000;   // that others get, for one of them to come out

// An injector may have died and left a thread here, which soon comes out.
bool enter() {
  for (int turn = 0; attaching.exchange(getpid()) == getpid(); ++turn) {
    if (turn == kTurns) return false;
    sched_yield();
  }
  return true;
}

// Begins a session in a process that runs already. `wish`: as HEAPYARD_TRACE (connection.hpp). What was allocated
// before is not known.
AttachResult attach(const char* wish) {
  if (current.session && mode() != Mode::kOff) {
    const auto collector = static_cast<pid_t>(shared().collector);
    if (collector == 0 || kill(collector, 0) == 0 || errno != ESRCH) return AttachResult::kTracedAlready;
    stop();
  }
  if (std::strlen(wish) >= sizeof current.wish) return AttachResult::kNobodyThere;
  find_next_malloc();
  std::strcpy(current.wish, wish);
  if (current.connection.load() == Connection::kConnected) forget_modules();  // of a session that has ended
  current.connection.store(Connection::kNotYet);
  // A thread of a program that this library was preloaded into may be quicker.
  while (!connected() && current.connection.load() == Connection::kConnecting) sched_yield();
  if (current.connection.load() != Connection::kConnected) return AttachResult::kNobodyThere;
  recorders.begin_anew();
  redirect_calls();
  return AttachResult::kTraced;
}

}  // namespace
}  // namespace heapyard::tracer

// 0: it is traced from now on; 1: it is traced already; 2: there is no collector at the place of `wish`.
extern "C" __attribute__((visibility("default"))) int heapyard_trace_attach(const char* wish) {
  using namespace heapyard::tracer;
  if (!enter()) return static_cast<int>(AttachResult::kTracedAlready);
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);  // the thread is in the middle of something else
  const AttachResult result = attach(wish);
  pthread_setcancelstate(before, nullptr);
  attaching.store(0);
  return static_cast<int>(result);
}
