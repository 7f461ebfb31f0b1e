#include "tracer/events/next_symbol.hpp"

#include <dlfcn.h>

#include <atomic>

namespace heapyard::tracer {

namespace {
constinit std::atomic<bool> late{false};
}

bool loaded_late() { return late.load(std::memory_order_relaxed); }

void set_loaded_late() { late.store(true); }

// A library loaded late is last in the search, and out of sight of it (RTLD_LOCAL).
void* next_symbol(const char* name) { return dlsym(loaded_late() ? RTLD_DEFAULT : RTLD_NEXT, name); }

}  // namespace heapyard::tracer
