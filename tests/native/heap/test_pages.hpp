// Pages for tests: those of the system, a given number of times.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

#include "heap/os/pages.hpp"

namespace heapyard::test {

struct ScarcePages {
  static inline std::atomic<std::size_t> left = std::numeric_limits<std::size_t>::max();  // mappings still granted
  static inline std::atomic<std::size_t> decommitted = 0;                                 // bytes

  static void* map(std::size_t bytes) {
    if (left == 0) return nullptr;
    --left;
    return os::map(bytes);
  }
  // Refuses whole reservations, as a system does that charges for what is not touched.
  static void* map_aligned(std::size_t bytes, std::size_t alignment) {
    if (left == 0 || bytes >= std::size_t{1} << 30) return nullptr;
    --left;
    return os::map_aligned(bytes, alignment);
  }
  static void* reserve(std::size_t bytes, std::size_t alignment) { return os::reserve(bytes, alignment); }
  static bool commit(void* memory, std::size_t bytes) {
    if (left == 0) return false;
    --left;
    return os::commit(memory, bytes);
  }
  static void uncommit(void* memory, std::size_t bytes) { os::uncommit(memory, bytes); }
  static void prefer_huge_pages(void* memory, std::size_t bytes) { os::prefer_huge_pages(memory, bytes); }
  static void unmap(void* memory, std::size_t bytes) { os::unmap(memory, bytes); }
  static bool decommit(void* memory, std::size_t bytes) {
    decommitted += bytes;
    return os::decommit(memory, bytes);
  }
};

}  // namespace heapyard::test
