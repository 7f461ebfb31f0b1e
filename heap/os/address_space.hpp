// SPDX-License-Identifier: Apache-2.0
// Where the address space has much room, and how much of it the process may have.
//
// Idea: the system places a mapping near the one before it. The start of the process says where the program's text,
// heap and stack lie. The middle of the widest gap between these stays free, so a heap can grow there piece by piece,
// in order, without reserving it. Cost: a few system calls. Allocates nothing.
#pragma once

#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "heap/os/file_text.hpp"
#include "heap/os/pages.hpp"

namespace heapyard::os {

struct AddressWindow {
  std::uintptr_t start;
  std::size_t bytes;  // 0: none
};

// At most `most` bytes at a multiple of `alignment`, a power of two. Nothing is mapped there, neither by this call.
inline AddressWindow free_window(std::size_t most, std::size_t alignment) {
#if defined(__SANITIZE_THREAD__)
  return {0, 0};  // ThreadSanitizer ends a program that maps where it has not foreseen it
#endif
  const std::size_t page = page_bytes();
  void* probe = map(page);
  if (probe == nullptr) return {0, 0};
  unmap(probe, page);
  std::uintptr_t known[] = {
      0,
      getauxval(AT_ENTRY),   // the program
      getauxval(AT_BASE),    // its loader
      getauxval(AT_RANDOM),  // the first stack: the top
      static_cast<std::uintptr_t>(syscall(SYS_brk, 0)),
      reinterpret_cast<std::uintptr_t>(probe),
  };
  std::sort(std::begin(known), std::end(known));
  std::uintptr_t from = 0;
  std::size_t gap = 0;
  for (std::size_t i = 1; i < std::size(known); ++i) {
    if (known[i] - known[i - 1] > gap) {
      from = known[i - 1];
      gap = known[i] - from;
    }
  }
  // Where something lies already, another heap for one, a little further up; never into the last quarter.
  for (std::size_t tries = 0; tries < 64; ++tries) {
    const std::uintptr_t start = round_up(from + gap / 4 + tries * (gap / 256), alignment);
    if (place(reinterpret_cast<void*>(start), page) != Placed::done) continue;
    unmap(reinterpret_cast<void*>(start), page);
    return {start, std::min(most, from + gap / 4 * 3 - start) & ~(alignment - 1)};
  }
  return {0, 0};
}

// Bytes of address space, or of writable memory, that the process may have at most; SIZE_MAX when there is no limit.
inline std::size_t address_limit() {
  const KeepErrno keep;
  std::size_t least = SIZE_MAX;
  for (const auto what : {RLIMIT_AS, RLIMIT_DATA}) {
    struct rlimit limit{};
    if (getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      least = std::min(least, static_cast<std::size_t>(limit.rlim_cur));
  }
  return least;
}

// Bytes of memory that the machine has; 0 when the system does not say.
inline std::size_t memory_bytes() {
  const KeepErrno keep;
  struct sysinfo info{};
  return sysinfo(&info) == 0 ? static_cast<std::size_t>(info.totalram) * info.mem_unit : 0;
}

// Whether the system charges for memory when it is mapped, not when it is touched (vm.overcommit_memory = 2).
inline bool charges_for_untouched() {
  const KeepErrno keep;
  char mode[1];
  return file_text("/proc/sys/vm/overcommit_memory", mode) == "2";
}

}  // namespace heapyard::os
