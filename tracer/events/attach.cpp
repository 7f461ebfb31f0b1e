// SPDX-License-Identifier: Apache-2.0
// What the injector has a process call that runs already, once it has loaded this library (tracer/injector).
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>

#include "tracer/events/recording.hpp"

namespace {

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

}  // namespace

// 0: it is traced from now on; 1: it is traced already; 2: there is no collector at the place of `wish`.
extern "C" __attribute__((visibility("default"))) int heapyard_trace_attach(const char* wish) {
  using heapyard::tracer::AttachResult;
  if (!enter()) return static_cast<int>(AttachResult::kTracedAlready);
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);  // the thread is in the middle of something else
  const AttachResult result = heapyard::tracer::attach(wish);
  pthread_setcancelstate(before, nullptr);
  attaching.store(0);
  return static_cast<int>(result);
}
