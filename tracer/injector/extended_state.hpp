// SPDX-License-Identifier: Apache-2.0
// How much extended state (x87, SSE, AVX, AVX-512, protection keys, whatever comes) this machine's processor saves.
//
// AMX tiles are left out: nothing that is called in the process touches them, and what is not touched needs no saving.
// Without XSAVE the 512 bytes of FXSAVE are all there is.
#pragma once

#include <cpuid.h>

#include <cstdint>

namespace heapyard::injector {

struct ExtendedState {
  std::uint64_t mask = 0;     // components, as XSAVE takes them; 0: no XSAVE
  std::uint64_t bytes = 512;  // of the area
  std::uint32_t keys_at = 0;  // where in it the protection keys' register is; 0: there is none

  static ExtendedState of_this_machine() {
    constexpr std::uint64_t kTiles = 3u << 17, kKeys = 1u << 9;
    constexpr std::uint32_t kHasXsave = 1u << 27;
    ExtendedState state;
    std::uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kHasXsave) == 0) return state;
    std::uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const std::uint64_t enabled = std::uint64_t{high} << 32 | low;
    if (__get_cpuid_count(0xd, 0, &a, &b, &c, &d) == 0) return state;
    state.bytes = b;
    state.mask = enabled & ~kTiles;
    if ((enabled & kKeys) != 0 && __get_cpuid_count(0xd, 9, &a, &b, &c, &d) != 0) state.keys_at = b;
    return state;
  }
};

}  // namespace heapyard::injector
