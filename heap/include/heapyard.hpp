// SPDX-License-Identifier: Apache-2.0
// A std::pmr::memory_resource over a first-class heap of libheapyard. C++17 or later.
//
//   heapyard::memory_resource resource;
//   std::pmr::vector<int> numbers(&resource);  // all of it goes with `resource`
#pragma once

#include <cstdlib>
#include <memory_resource>
#include <new>

#include "heapyard.h"

namespace heapyard {

// Owns its heap. Blocks that are deallocated can be used again at once; what is left goes with the resource, or by
// release(). Threads: any, but for release() and the end. Errors: std::bad_alloc.
class memory_resource : public std::pmr::memory_resource {
 public:
  memory_resource() : heap_(created()) {}
  memory_resource(const memory_resource&) = delete;
  memory_resource& operator=(const memory_resource&) = delete;
  ~memory_resource() override { heapyard_heap_destroy(heap_); }

  // Every block goes; the resource is as new. O(pages).
  void release() {
    heapyard_heap* const fresh = created();
    heapyard_heap_destroy(heap_);
    heap_ = fresh;
  }

  heapyard_heap* heap() const noexcept { return heap_; }

 private:
  static heapyard_heap* created() {
    heapyard_heap* heap = heapyard_heap_create();
    if (heap == nullptr) throw std::bad_alloc();
    return heap;
  }

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* block = heapyard_heap_allocate_aligned(heap_, alignment, bytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  void do_deallocate(void* block, std::size_t, std::size_t) override { std::free(block); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  heapyard_heap* heap_;
};

}  // namespace heapyard
