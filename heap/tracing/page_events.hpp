// SPDX-License-Identifier: Apache-2.0
// Where a heap reports that it takes a page record, a span or a large block, or gives it back. BFM's tracer listened to
// such events.
//
// Idea: memory changes hands between layers so seldom that a test of a pointer there costs nothing that counts. The
// fast path carries nothing (report of BFM, section 4.1). Cost: a load where nobody listens.
#pragma once

#include <atomic>
#include <cstddef>

#include "heap/include/heapyard.h"

namespace heapyard::tracing {

// Called with locks of the heap held: must not allocate from it. `returned` comes before the memory is given back,
// `taken` after it was got.
using PageEvents = heapyard_page_events;

inline constinit std::atomic<const PageEvents*> page_events{nullptr};

inline void page_taken(void* memory, std::size_t bytes) {
  if (const PageEvents* events = page_events.load(std::memory_order_relaxed); events != nullptr && memory != nullptr)
      [[unlikely]]
    events->taken(memory, bytes);
}

inline void page_returned(void* memory) {
  if (const PageEvents* events = page_events.load(std::memory_order_relaxed)) [[unlikely]]
    events->returned(memory);
}

}  // namespace heapyard::tracing
