// SPDX-License-Identifier: Apache-2.0
// Sampled from within a heap of this project: it counts its blocks, and tells when the turn of one has come.
//
// Cost: O(frames) a sample, O(1) else. Threads: any, without locks of the heap held. Signals: recording_guard.hpp.
#pragma once

#include "heap/tracing/sample_events.hpp"

namespace heapyard::tracer {

extern const tracing::SampleEvents kSampleEvents;  // what the heap is to call

}  // namespace heapyard::tracer
