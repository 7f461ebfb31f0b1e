// SPDX-License-Identifier: Apache-2.0
// Compositions of layers over scarce pages, as objects beside the malloc that serves the test.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <thread>

#include "heap/layers/heap_usage.hpp"
#include "sanitized.hpp"
#include "test_pages.hpp"
#include "test_samples.hpp"

namespace heapyard::test {

// What a test asks of a heap. As calls, so that a test is compiled once, and not for each heap.
struct TestedHeap {
  const char* name;
  bool sampled, of_pages;  // whether its front end counts; whether it is of small pages
  bool one_size_each;      // whether blocks have one size each, so that none can be resized in place
  void (*begin)();
  void* (*allocate)(std::size_t bytes);
  void* (*allocate_zeroed)(std::size_t bytes);
  void* (*allocate_aligned)(std::size_t bytes, std::size_t alignment);
  void (*free)(void* block);
  bool (*resize)(void* block, std::size_t bytes);
  void* (*move)(void* block, std::size_t bytes);
  std::size_t (*usable)(const void* block);
  HeapUsage (*usage)();
  // Whether its layers' records agree with each other. Only while nobody visits the heap.
  bool (*consistent)();
};

// A block remembers what it was filled with in its first byte.
inline void fill(void* block, std::size_t bytes, unsigned char value) { std::memset(block, value, bytes); }
inline bool filled(const void* block, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(block);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at[i] != at[0]) return false;
  }
  return true;
}

class Composition : public testing::TestWithParam<TestedHeap> {
 protected:
  const TestedHeap& heap = GetParam();
  void SetUp() override {
    ScarcePages::left = SIZE_MAX;
    if (heap.sampled) listen();
  }
  void TearDown() override {
    ScarcePages::left = ScarcePages::most = SIZE_MAX;
    listen_no_more();
  }

  void check() { ASSERT_TRUE(heap.consistent()); }

  // Runs in a thread of its own, so that everything it caches is given back.
  template <class Work>
  static void in_thread(Work work) {
    std::thread(work).join();
  }
};

// What needs one thread only.
class CompositionAlone : public Composition {};

}  // namespace heapyard::test
