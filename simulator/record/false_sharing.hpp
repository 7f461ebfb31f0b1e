// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulator/model/directory.hpp"

namespace heapyard::simulator {

// Two threads wrote the line, some two of them no byte in common, and at least half of the transfers brought it to a
// core that touched none of the bytes written since the transfer before. O(writers^2).
inline bool is_false_sharing(const SharedLine& line) {
  if (line.transfers == 0 || 2 * line.false_transfers < line.transfers) return false;
  for (std::size_t i = 0; i < line.writers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!(line.writers[i].bytes & line.writers[j].bytes)) return true;
  return false;
}

}  // namespace heapyard::simulator
