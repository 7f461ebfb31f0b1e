// SPDX-License-Identifier: Apache-2.0
// Python's own objects, which its allocator places in arenas that it maps: sampled as blocks of malloc are.
//
// Idea: CPython lets anybody put functions in front of its allocators (PyMem_SetAllocator, PyObject_SetArenaAllocator).
// Those of small objects count bytes as malloc does, and an object that is due comes from malloc, which records it: for
// a block that lies in none of its arenas Python asks malloc's free. So no free of Python's has to be looked at. Those
// of arenas say which mappings hold such objects. Cost: a few instructions an object. Threads: whoever runs Python
// code. Python sets its allocators anew while it starts: so they are put in front with each arena that is mapped.
#pragma once

namespace heapyard::tracer {

// Puts them in front, if there is a Python whose objects are to be sampled. O(loaded objects), once.
void take_python_objects();
// Python's own functions are asked again.
void give_python_objects_back();

}  // namespace heapyard::tracer
