// What a debugger calls in a process that runs already, once it has loaded this library.
#include "tracer/events/recording.hpp"

// 0: it is traced from now on; 1: it is traced already; 2: there is no collector at the place of `wish`.
extern "C" __attribute__((visibility("default"))) int heapyard_trace_attach(const char* wish) {
  return static_cast<int>(heapyard::tracer::attach(wish));
}
