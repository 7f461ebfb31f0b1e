// SPDX-License-Identifier: Apache-2.0
// How a program talks to the simulated machine that it runs on: by system calls that no kernel has, which the simulator
// sees. They return ENOSYS, as anywhere else.
#pragma once

namespace heapyard {

// Environment: set to 1 on a simulated machine, where the processor's own counter tells nothing.
inline constexpr const char* kSimulatedVariable = "HEAPYARD_SIMULATED";

inline constexpr long kSimulationBegin = 0x08590001;  // the measured phase begins, for all threads
inline constexpr long kSimulationEnd = 0x08590002;

}  // namespace heapyard
