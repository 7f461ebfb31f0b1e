// SPDX-License-Identifier: Apache-2.0
// Showing a run: a table for people, the published code's summary lines, JSON for the lab.
#pragma once

#include "run.hpp"

namespace heapyard::acdc {

// Writes what the options ask for; false when a file or standard output did not take it. O(threads + samples).
bool write_result(const Run& run);

}  // namespace heapyard::acdc
