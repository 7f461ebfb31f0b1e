// SPDX-License-Identifier: Apache-2.0
// Python's own objects, which its allocator places in arenas that it maps: recorded as blocks of malloc are.
//
// Idea: CPython lets anybody put functions in front of its allocators (PyMem_SetAllocator, PyObject_SetArenaAllocator).
// Those of small objects count bytes and record as malloc's do (hooks.cpp); what Python asks malloc for is recorded
// there, and only there. Those of arenas say which mappings hold such objects. Cost: as malloc's. Threads: whoever runs
// Python code. Python sets its allocators anew while it starts: so they are put in front again with each arena.
#pragma once

namespace heapyard::tracer {

// Puts them in front, if there is a Python whose objects are to be recorded. O(loaded objects), once.
void take_python_objects();
// Python's own functions are asked again.
void give_python_objects_back();

}  // namespace heapyard::tracer
