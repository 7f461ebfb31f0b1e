// What a heap says of its memory: malloc_info, mallinfo2 and our own tests read it.
#pragma once

#include <cstddef>

namespace heapyard {

struct HeapUsage {
  std::size_t mapped;  // bytes mapped from the system
  std::size_t free;    // of these, bytes no block of the program occupies; those in caches count as occupied
};

}  // namespace heapyard
