// What the kernel says of this process's memory: RSS now, peak RSS, page faults. System calls only, no heap.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>

#include "fatal.hpp"

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

struct PageFaults {
  std::int64_t minor, major;
};

inline PageFaults page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_minflt, usage.ru_majflt};
}

}  // namespace heapyard::kit
