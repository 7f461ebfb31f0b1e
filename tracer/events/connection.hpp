// SPDX-License-Identifier: Apache-2.0
// Makes this process's shared memory and hands it to a collector.
#pragma once

#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

// `wish`: "<mode>:<log2 interval>:<depth>:<1: with Python, else 0>:<token>:<path of the collector's socket>", or
// null. `prepare`: whether there is what else that mode needs. An empty session without a wish, without a collector, or
// without memory, which the collector is told. System calls only: safe after a fork.
Session connect_to_collector(const char* wish, bool (*prepare)(Mode));

}  // namespace heapyard::tracer
