// SPDX-License-Identifier: Apache-2.0
// What the kernel says of this process's memory: RSS now, peak RSS, page faults. System calls only, no heap.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

#include "base/fatal.hpp"
#include "base/simulation.hpp"

namespace heapyard::kit {

// Reads /proc/self/statm through one descriptor opened beforehand; a read costs one pread, O(1) of the process's size.
class ResidentMemory {
 public:
  void open() {
    descriptor_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fatal(kExitMachine, "cannot read /proc/self/statm");
    page_ = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }

  // Resident bytes of the whole process, bookkeeping included.
  std::uint64_t bytes() const {
    if (is_simulated) return simulated_resident_bytes();
    char text[128];
    const ssize_t length = pread(descriptor_, text, sizeof text - 1, 0);
    if (length <= 0) return 0;
    text[length] = 0;
    const char* at = text;
    while (*at && *at != ' ') ++at;  // first field: total size
    std::uint64_t pages = 0;
    for (++at; *at >= '0' && *at <= '9'; ++at) pages = pages * 10 + static_cast<std::uint64_t>(*at - '0');
    return pages * page_;
  }

 private:
  int descriptor_ = -1;
  std::uint64_t page_ = 4096;
};

// Most bytes that were ever resident at once, by the kernel's own high-water mark (VmHWM); 0 when it does not say.
// Unlike ru_maxrss it does not remember the program that called exec. O(1): one small file.
inline std::uint64_t peak_resident_bytes() {
  if (is_simulated) return 0;
  const int status = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (status < 0) return 0;
  char text[4096];
  const ssize_t length = read(status, text, sizeof text - 1);
  close(status);
  const std::string_view lines(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  constexpr std::string_view kLabel = "VmHWM:";
  const std::size_t label = lines.find(kLabel);
  std::uint64_t kib = 0;
  for (std::size_t i = label + kLabel.size(); label != std::string_view::npos && i < lines.size(); ++i) {
    if (lines[i] == '\n') break;
    if (lines[i] >= '0' && lines[i] <= '9') kib = kib * 10 + static_cast<std::uint64_t>(lines[i] - '0');
  }
  return kib * 1024;
}

struct PageFaults {
  std::int64_t minor, major;
};

inline PageFaults page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_minflt, usage.ru_majflt};
}

}  // namespace heapyard::kit
