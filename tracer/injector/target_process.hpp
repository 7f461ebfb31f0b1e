// SPDX-License-Identifier: Apache-2.0
// What must be known of a process before one of its threads is stopped, so that the stop is short.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracer/injector/call_chain.hpp"
#include "tracer/injector/extended_state.hpp"
#include "tracer/injector/loaded_object.hpp"
#include "tracer/injector/process_memory.hpp"
#include "tracer/injector/unsafe_places.hpp"

namespace heapyard::injector {

struct TargetProcess {
  // Reads maps, symbols and unwind tables; stops nothing. O(mappings and symbols).
  explicit TargetProcess(pid_t pid);

  // Why nothing can be loaded into it, or empty.
  std::string why_not() const;
  // Whether it runs its program for so short a time that the dynamic linker has not mapped the C library yet.
  bool is_beginning() const { return !has_c_library_ && is_still_it(); }
  // Whether it still runs the program that all this is known of. O(1).
  bool is_still_it() const;

  pid_t pid;
  ProcessMemory memory;
  std::vector<Range> slack;  // where a stub may lie
  std::uint64_t dlopen = 0, dlsym = 0, dlerror = 0, errno_location = 0;
  ExtendedState extended = ExtendedState::of_this_machine();
  Unwinder unwinder;

  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): whoever made this process has found them
  const UnsafePlaces& unsafe() const { return *unsafe_; }

 private:
  std::optional<UnsafePlaces> unsafe_;
  const std::string start_;  // what the kernel told the program of itself
  std::uint64_t known_address_ = 0;
  bool has_c_library_ = false;
};

}  // namespace heapyard::injector
