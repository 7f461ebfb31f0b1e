// SPDX-License-Identifier: Apache-2.0
// The hook through which the tracer listens to a heap whose front end can be sampled.
#include "composition.hpp"
#include "heap/tracing/sample_events.hpp"

// From now on `events` decides which blocks are samples and is told of them; null: none are.
extern "C" __attribute__((visibility("default"))) void heapyard_observe_samples(
    const heapyard::tracing::SampleEvents* events) {
  heapyard::tracing::sample_events.store(events, std::memory_order_relaxed);
}
