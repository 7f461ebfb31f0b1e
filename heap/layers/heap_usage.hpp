// SPDX-License-Identifier: Apache-2.0
// What a heap says of its memory: malloc_info, mallinfo2 and our own tests read it.
#pragma once

#include <cstddef>

namespace heapyard {

struct HeapUsage {
  std::size_t mapped;  // bytes mapped from the system
  std::size_t free;    // of these, bytes that no block of the program occupies, in whatever cache they lie

  // Bytes that the program holds. What is summed up while threads go on may be out by a little.
  std::size_t held() const { return free < mapped ? mapped - free : 0; }
};

}  // namespace heapyard
