// SPDX-License-Identifier: Apache-2.0
// A number in /proc/PID/task/TID/status.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace heapyard::injector {

// Of thread 0 of process 0: of this process. Nothing if there is no such field, or thread.
inline std::optional<std::uint64_t> status_field(pid_t process, pid_t thread, std::string_view name, int base = 10) {
  const std::string folder =
      process == 0 ? "/proc/self" : "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, base);
  return {};
}

}  // namespace heapyard::injector
