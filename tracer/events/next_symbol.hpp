// SPDX-License-Identifier: Apache-2.0
// Where the real functions are: after this library if it was preloaded, before it if it was loaded into a running
// process.
#pragma once

#include <link.h>

namespace heapyard::tracer {

bool loaded_late();
// Said once, before anything is looked up.
void set_loaded_late();
// A function's address, or null. O(loaded objects).
void* next_symbol(const char* name);
// Whether the executable itself defines it, so that a preloaded library's is not asked. O(loaded objects).
bool defined_by_executable(const char* name);
// The object around an address, or null. O(log objects), where dladdr() looks at every symbol.
const link_map* object_around(const void* address);

}  // namespace heapyard::tracer
