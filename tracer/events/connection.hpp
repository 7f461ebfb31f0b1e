// Makes this process's shared memory and hands it to a collector.
#pragma once

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

// `wish`: "<mode>:<log2 interval>:<depth>:<path of the collector's socket>", or null. An empty session without it,
// without a collector, or without memory. System calls only: safe after a fork.
Session connect_to_collector(const char* wish);

}  // namespace heapyard::tracer
