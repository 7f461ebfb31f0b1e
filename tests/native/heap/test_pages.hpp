// SPDX-License-Identifier: Apache-2.0
// Pages for tests: those of the system, a given number of times.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "heap/os/address_space.hpp"
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
  static void* map_aligned(std::size_t bytes, std::size_t alignment) {
    if (left == 0) return nullptr;
    --left;
    return os::map_aligned(bytes, alignment);
  }
  static void* map_near(void* wish, std::size_t bytes) { return left == 0 ? nullptr : os::map_near(wish, bytes); }
  static os::Placed place(void* at, std::size_t bytes) {
    if (left == 0) return os::Placed::refused;
    --left;
    return os::place(at, bytes);
  }
  static void* hold(std::size_t bytes, std::size_t alignment) { return os::hold(bytes, alignment); }
  static bool place_in_held(void* at, std::size_t bytes, bool back) {
    if (left == 0 && !back) return false;
    if (!back) --left;
    return os::place_in_held(at, bytes, back);
  }
  static os::AddressWindow window(std::size_t most, std::size_t alignment) { return os::free_window(most, alignment); }
  static bool filled(void* page) { return os::filled(page); }
  static inline std::atomic<std::size_t> most = SIZE_MAX;  // the process's address space
  static std::size_t limit() { return most; }
  static std::size_t group_limit() { return SIZE_MAX; }
  // Spans give their memory back whole, and are charged for it again.
  static bool charges() { return true; }
  static inline std::atomic<std::size_t> preferred = 0, refused = 0;  // bytes, for huge pages
  static void prefer_huge_pages(void* memory, std::size_t bytes) {
    preferred += bytes;
    os::prefer_huge_pages(memory, bytes);
  }
  static void refuse_huge_pages(void* memory, std::size_t bytes) {
    refused += bytes;
    os::refuse_huge_pages(memory, bytes);
  }
  static inline bool unmaps = true;  // else a mapping more would be one too many
  static bool unmap(void* memory, std::size_t bytes) { return unmaps && os::unmap(memory, bytes); }
  static void* remap(void* memory, std::size_t bytes, std::size_t larger) {
    return left == 0 ? nullptr : os::remap(memory, bytes, larger);
  }
  static os::Grown grow_mapping(void* memory, std::size_t bytes, std::size_t larger) {
    return left == 0 ? os::Grown::never : os::grow_mapping(memory, bytes, larger);
  }
  static bool move_mapping(void* memory, std::size_t bytes, void* target, std::size_t larger) {
    return os::move_mapping(memory, bytes, target, larger);
  }
  static bool move_pages(void* memory, std::size_t bytes, void* target) {
    return os::move_pages(memory, bytes, target);
  }
  static bool decommit(void* memory, std::size_t bytes) {
    decommitted += bytes;
    return os::decommit(memory, bytes);
  }
};

}  // namespace heapyard::test
