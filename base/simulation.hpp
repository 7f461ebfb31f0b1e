// SPDX-License-Identifier: Apache-2.0
// How a program talks to the simulated machine that it runs on (simulator/): by system calls that no kernel has, which
// the simulator sees. They return ENOSYS, as anywhere else.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace heapyard {

enum SimulationCall : long {
  kSimulationBegin = 0x08590001,  // the measured phase begins, for all threads
  kSimulationEnd = 0x08590002,
  kSimulationResident = 0x08590003,  // stores resident bytes, by the pages that were touched, where its argument points
};

// The environment says so: HEAPYARD_SIMULATED=1. There the processor's own counter tells nothing, and what the kernel
// says of the process's memory contains the simulator's.
inline const bool is_simulated = [] {
  const char* const said = std::getenv("HEAPYARD_SIMULATED");
  return said && std::string_view(said) == "1";
}();

inline void mark_simulation(SimulationCall call) {
  if (is_simulated) syscall(call);
}

inline std::uint64_t simulated_resident_bytes() {
  std::uint64_t bytes = 0;
  syscall(kSimulationResident, &bytes);
  return bytes;
}

}  // namespace heapyard
