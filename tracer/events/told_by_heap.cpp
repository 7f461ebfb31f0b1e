// SPDX-License-Identifier: Apache-2.0
// What stands in for hooks.cpp where the heap itself tells, of pages or of samples: malloc is the heap's own, and
// nothing is in front of it.
#include "tracer/events/modules.hpp"
#include "tracer/events/next_malloc.hpp"
#include "tracer/events/next_symbol.hpp"
#include "tracer/events/python_objects.hpp"
#include "tracer/events/recording.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace heapyard::tracer {

constinit EarlyBlocks early_blocks;  // none are ever taken
void find_next_malloc() {}           // nobody comes by here
unsigned log2_between_blocks() { return 4; }
std::size_t usable_size(void*) { return 0; }  // the heap tells the size of its classes
bool told_by_heap() { return true; }
void take_python_objects() {}  // they are recorded in front of malloc only
void give_python_objects_back() {}

}  // namespace heapyard::tracer

EXPORTED int dlclose(void* handle) {
  using Close = int (*)(void*);
  static constinit std::atomic<Close> next{nullptr};
  if (next.load(std::memory_order_relaxed) == nullptr)
    next.store(reinterpret_cast<Close>(heapyard::tracer::next_symbol("dlclose")), std::memory_order_relaxed);
  const int result = next.load(std::memory_order_relaxed)(handle);
  heapyard::tracer::forget_modules();
  return result;
}

EXPORTED void heapyard_trace_mark(const char* name) { heapyard::tracer::record_mark(name); }
