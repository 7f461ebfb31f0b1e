// The operating system as a policy: what layers that map memory take as their `Pages`.
#pragma once

#include "heap/os/pages.hpp"

namespace heapyard::os {

struct SystemPages {
  static void* map(std::size_t bytes) { return os::map(bytes); }
  static void* map_aligned(std::size_t bytes, std::size_t alignment) { return os::map_aligned(bytes, alignment); }
  static void* reserve(std::size_t bytes, std::size_t alignment) { return os::reserve(bytes, alignment); }
  static bool commit(void* memory, std::size_t bytes) { return os::commit(memory, bytes); }
  static void uncommit(void* memory, std::size_t bytes) { os::uncommit(memory, bytes); }
  static void prefer_huge_pages(void* memory, std::size_t bytes) { os::prefer_huge_pages(memory, bytes); }
  static void unmap(void* memory, std::size_t bytes) { os::unmap(memory, bytes); }
  static bool decommit(void* memory, std::size_t bytes) { return os::decommit(memory, bytes); }
};

}  // namespace heapyard::os
