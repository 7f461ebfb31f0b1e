// SPDX-License-Identifier: Apache-2.0
// What the resident memory of a process is at an instant: mappings of the program's own by call chain, what malloc has,
// stacks, the program and its libraries.
//
// Idea: the kernel says of each of its areas what is resident (/proc/PID/smaps). An area that the program mapped by
// itself is its chain's. Of one that holds several such mappings, or one in part, the page map says which pages are
// there. The rest is told by names, and by what lies beside it: data behind a library, a stack above its guard. Of the
// C library's malloc the heap and the arenas are known, and every area that holds a sample. Where every event is
// recorded, nobody knows where blocks are: what live blocks take beyond heap and arenas is moved there from what is
// unknown. Under any other malloc what would be unknown is malloc's. Everything is counted once, so the parts add up to
// the whole. Cost: O(areas) lines of text, made by the kernel, and 8 bytes for each page of areas that are looked at
// closer. Errors: false, when the process has gone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/shared.hpp"
#include "tracer/collector/program_mappings.hpp"

namespace heapyard::tracer {

// Bytes. Of what is resident other processes have a part too, and a part lies in huge pages.
struct Residency {
  std::uint64_t resident = 0, shared = 0, huge = 0, swapped = 0;
  Residency& operator+=(const Residency& more) {
    resident += more.resident;
    shared += more.shared;
    huge += more.huge;
    swapped += more.swapped;
    return *this;
  }
};

struct MappedByChain {
  Residency there;
  std::uint64_t mapped = 0, pieces = 0;  // bytes, mappings
};

struct ResidentAccount {
  std::uint64_t resident = 0;             // bytes of all
  std::uint64_t shared = 0;               // of those, that other processes have too
  std::uint64_t swapped = 0;              // beside them
  std::array<std::uint64_t, 10> parts{};  // by shared::Resident
  std::vector<MappedByChain> chains;      // by their index in the accounts
  std::uint64_t& part(shared::Resident which) { return parts[static_cast<std::size_t>(which)]; }
};

struct AccountOf {
  std::uint32_t pid;
  bool glibc;                          // the malloc is the C library's
  std::uint64_t live, rounding;        // bytes of blocks; bytes beyond that may be used
  std::vector<std::uint64_t> samples;  // where some of them are, the lowest first
};
// `tracers`: what the tracer has mapped in it. `meanwhile` is called now and then while the kernel is asked, which
// takes long of a large program: so that its rings do not overflow.
bool read_account(const AccountOf& of, const ProgramMappings& mappings, const ProgramMappings& tracers,
                  const std::function<void()>& meanwhile, ResidentAccount& account);

}  // namespace heapyard::tracer
