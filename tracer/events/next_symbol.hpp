// Where the real functions are: after this library if it was preloaded, before it if it was loaded into a running
// process.
#pragma once

namespace heapyard::tracer {

bool loaded_late();
// Said once, before anything is looked up.
void set_loaded_late();
// A function's address, or null. O(loaded objects).
void* next_symbol(const char* name);

}  // namespace heapyard::tracer
