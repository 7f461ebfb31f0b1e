// What the injector has a process call that runs already, once it has loaded this library (tracer/injector).
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "tracer/events/recording.hpp"

namespace {

std::atomic<pid_t> attaching{0};  // the process, while a thread of it is within; a child forked meanwhile is another
constexpr int kNaps = 100;        // of a millisecond, that another thread may be within

// An injector may have died and left a thread here, which soon comes out.
bool enter() {
  for (int nap = 0; attaching.exchange(getpid()) == getpid(); ++nap) {
    if (nap == kNaps) return false;
    usleep(1000);
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
