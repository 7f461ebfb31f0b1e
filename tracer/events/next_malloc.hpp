// The malloc that serves the program: the next one after this library in the order of symbols.
//
// Idea: dlsym(RTLD_NEXT) once. What it may itself allocate meanwhile comes from a small buffer that is never freed.
// Cost: O(1) after the first call.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heapyard::tracer {

struct NextMalloc {
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*malloc_usable_size)(void*);
  int (*dlclose)(void*);
};

// Blocks for the time before the next malloc is known. 64 KiB; more than the dynamic linker asks for.
class EarlyBlocks {
 public:
  void* take(std::size_t size) {
    const std::size_t needed = (size + 31) & ~std::size_t{15};  // a word for the size before each block
    const std::size_t begin = used_.fetch_add(needed, std::memory_order_relaxed);
    if (size > sizeof bytes_ || begin + needed > sizeof bytes_) return nullptr;
    std::memcpy(bytes_ + begin, &size, sizeof size);
    return bytes_ + begin + 16;
  }
  bool owns(const void* block) const { return block >= bytes_ && block < bytes_ + sizeof bytes_; }
  static std::size_t size_of(const void* block) {
    std::size_t size;
    std::memcpy(&size, static_cast<const char*>(block) - 16, sizeof size);
    return size;
  }

 private:
  alignas(16) char bytes_[64 << 10] = {};
  std::atomic<std::size_t> used_{0};
};

}  // namespace heapyard::tracer
