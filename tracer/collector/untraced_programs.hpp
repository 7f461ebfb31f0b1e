// SPDX-License-Identifier: Apache-2.0
// Programs that are not traced, and what is said of them.
//
// Idea: one that has no memory for it is told of at once. Programs that bring their own malloc are many, so they are
// told of at the end, once each, and only where something was traced: where nothing is, whoever started the collector
// says why. Cost: O(1), O(programs) at the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <unordered_map>

#include "tracer/session/untraced.hpp"

namespace heapyard::tracer {

class UntracedPrograms {
 public:
  // The process `pid`, which runs `program`, has said why it is not traced.
  void note(std::uint32_t pid, Untraced reason, const std::string& program) {
    if (reason == Untraced::kOwnMalloc) {
      if (own_malloc_.size() < kRemembered) own_malloc_[pid] = program;
    } else {
      std::fprintf(stderr,
                   "heapyard: %s (process %u) is not traced: it may not have the memory that takes (ulimit -v)\n",
                   program.c_str(), pid);
    }
  }
  // It is traced after all, for what its malloc passes on is.
  void forget(std::uint32_t pid) { own_malloc_.erase(pid); }

  void tell() const {
    std::map<std::string, int> processes;
    for (const auto& [pid, program] : own_malloc_) ++processes[program];
    for (const auto& [program, count] : processes)
      std::fprintf(stderr, "heapyard: %s brings its own malloc and is not traced (%d process%s)\n", program.c_str(),
                   count, count == 1 ? "" : "es");
  }

 private:
  static constexpr std::size_t kRemembered = 10'000;

  std::unordered_map<std::uint32_t, std::string> own_malloc_;  // programs by process
};

}  // namespace heapyard::tracer
