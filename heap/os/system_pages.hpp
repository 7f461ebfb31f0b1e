// SPDX-License-Identifier: Apache-2.0
// The operating system as a policy: what layers that map memory take as their `Pages`.
#pragma once

#include "heap/os/address_space.hpp"
#include "heap/os/memory_group.hpp"
#include "heap/os/pages.hpp"

namespace heapyard::os {

struct SystemPages {
  static void* map(std::size_t bytes) { return os::map(bytes); }
  static void* map_aligned(std::size_t bytes, std::size_t alignment) { return os::map_aligned(bytes, alignment); }
  static void* map_near(void* wish, std::size_t bytes) { return os::map_near(wish, bytes); }
  static Placed place(void* at, std::size_t bytes) { return os::place(at, bytes); }
  static void* hold(std::size_t bytes, std::size_t alignment) { return os::hold(bytes, alignment); }
  static bool place_in_held(void* at, std::size_t bytes, bool back) { return os::place_in_held(at, bytes, back); }
  static AddressWindow window(std::size_t most, std::size_t alignment) { return os::free_window(most, alignment); }
  static bool filled(void* page) { return os::filled(page); }
  static std::size_t limit() { return os::address_limit(); }
  static std::size_t group_limit() { return os::group_limit(); }
  static bool charges() { return os::charges_for_untouched(); }
  static void prefer_huge_pages(void* memory, std::size_t bytes) { os::prefer_huge_pages(memory, bytes); }
  static void refuse_huge_pages(void* memory, std::size_t bytes) { os::refuse_huge_pages(memory, bytes); }
  static bool unmap(void* memory, std::size_t bytes) { return os::unmap(memory, bytes); }
  static void* remap(void* memory, std::size_t bytes, std::size_t larger) { return os::remap(memory, bytes, larger); }
  static Grown grow_mapping(void* memory, std::size_t bytes, std::size_t larger) {
    return os::grow_mapping(memory, bytes, larger);
  }
  static bool move_mapping(void* memory, std::size_t bytes, void* target, std::size_t larger) {
    return os::move_mapping(memory, bytes, target, larger);
  }
  static bool move_pages(void* memory, std::size_t bytes, void* target) {
    return os::move_pages(memory, bytes, target);
  }
  static bool decommit(void* memory, std::size_t bytes) { return os::decommit(memory, bytes); }
};

}  // namespace heapyard::os
