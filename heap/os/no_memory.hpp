// SPDX-License-Identifier: Apache-2.0
// How a heap reports that memory is out: null, with errno ENOMEM. Slow paths end with it, so that fast paths end with
// their last instruction.
#pragma once

#include <cerrno>

namespace heapyard::os {

inline void* or_no_memory(void* block) {
  if (block == nullptr) [[unlikely]]
    errno = ENOMEM;
  return block;
}

}  // namespace heapyard::os
