// SPDX-License-Identifier: Apache-2.0
// Bytes of a process that are resident, as the kernel counts them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace heapyard::tracer {

class ResidentMemory {
 public:
  explicit ResidentMemory(std::uint32_t pid)
      : statm_(open(("/proc/" + std::to_string(pid) + "/statm").c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~ResidentMemory() {
    if (statm_ >= 0) close(statm_);
  }
  ResidentMemory(const ResidentMemory&) = delete;
  ResidentMemory& operator=(const ResidentMemory&) = delete;

  // False: the process has gone; `bytes` are left as they were. One system call.
  bool read(std::int64_t& bytes) const {
    char text[128];
    const ssize_t length = statm_ >= 0 ? pread(statm_, text, sizeof text - 1, 0) : 0;
    if (length <= 0) return false;
    text[length] = '\0';
    char* end = nullptr;
    std::strtoull(text, &end, 10);  // all of it, before what is resident
    bytes = static_cast<std::int64_t>(std::strtoull(end, nullptr, 10) * 4096);
    return true;
  }

 private:
  int statm_;
};

}  // namespace heapyard::tracer
