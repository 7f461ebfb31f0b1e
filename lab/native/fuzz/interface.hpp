// SPDX-License-Identifier: Apache-2.0
// Which calls the malloc under test serves itself.
//
// Idea: a library that brings malloc but not, say, memalign leaves that to the C library, whose blocks its free does
// not know. Such a call is not made; `heapyard check` tells of it. Cost: a few look-ups once.
#pragma once

#include <cstddef>

namespace heapyard::fuzz {

struct Interface {
  // Null: not the library's own.
  void* (*aligned_alloc)(std::size_t, std::size_t) = nullptr;
  int (*posix_memalign)(void**, std::size_t, std::size_t) = nullptr;
  void* (*memalign)(std::size_t, std::size_t) = nullptr;
  void* (*valloc)(std::size_t) = nullptr;
  void* (*pvalloc)(std::size_t) = nullptr;
  void* (*reallocarray)(void*, std::size_t, std::size_t) = nullptr;
  std::size_t (*usable_size)(void*) = nullptr;
  void (*free_sized)(void*, std::size_t) = nullptr;
  void (*free_aligned_sized)(void*, std::size_t, std::size_t) = nullptr;
  int (*trim)(std::size_t) = nullptr;
  void (*ask)() = nullptr;  // mallinfo2, whose result is not looked at
  bool news = false;        // operator new; the C++ library's own rounds sizes near the top down to 0 (GCC 12)

  static Interface find();
};

}  // namespace heapyard::fuzz
