// Makes this process's shared memory and hands it to the collector named in the environment.
#pragma once

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

// HEAPYARD_TRACE="<mode>:<log2 interval>:<depth>:<path of the collector's socket>". An empty session without it,
// without a collector, or without memory. System calls only: safe after a fork.
Session connect_to_collector();

}  // namespace heapyard::tracer
