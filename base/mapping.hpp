// SPDX-License-Identifier: Apache-2.0
// Memory that is no heap's: mappings of this process alone, shared with what it forks, or of a file. Zeroed and
// readable and writable; null where the kernel has none. munmap gives them back. Cost: one system call each. Threads:
// any.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace heapyard {

namespace detail {
inline void* mapped(std::size_t bytes, int flags, int file) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
}  // namespace detail

inline void* map_private(std::size_t bytes) { return detail::mapped(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1); }
// Address space of which little may ever be touched: not counted against what the kernel would commit.
inline void* map_sparse(std::size_t bytes) {
  return detail::mapped(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}
inline void* map_shared(std::size_t bytes) { return detail::mapped(bytes, MAP_SHARED | MAP_ANONYMOUS, -1); }
// The first bytes of `file`, shared with all who map it. `sparse`: as above.
inline void* map_file(int file, std::size_t bytes, bool sparse = false) {
  return detail::mapped(bytes, MAP_SHARED | (sparse ? MAP_NORESERVE : 0), file);
}

}  // namespace heapyard
