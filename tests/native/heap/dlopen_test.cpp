// SPDX-License-Identifier: Apache-2.0
// A heap of ours as a library that comes and goes, beside the malloc that serves this program: its threads may outlive
// it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

struct Family {
  void* library;
  void* (*allocate)(std::size_t);
  void (*free)(void*);

  Family() {
    const char* path = std::getenv("HEAPYARD_TEST_LIBRARY");
    if (path == nullptr) throw std::runtime_error("HEAPYARD_TEST_LIBRARY is to name the heap's library");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    allocate = reinterpret_cast<void* (*)(std::size_t)>(dlsym(library, "malloc"));
    free = reinterpret_cast<void (*)(void*)>(dlsym(library, "free"));
  }
};

void use(const Family& heap) {
  std::vector<void*> blocks;
  for (std::size_t bytes = 1; bytes < 3000; bytes += 7) {
    blocks.push_back(std::memset(heap.allocate(bytes), 1, bytes));
  }
  for (void* block : blocks) heap.free(block);
}

TEST(Dlopen, ComesAndGoesManyTimes) {
  for (int round = 0; round < 50; ++round) {
    const Family heap;
    EXPECT_NE(reinterpret_cast<void*>(heap.allocate), dlsym(RTLD_DEFAULT, "malloc"));
    use(heap);
    std::thread([&] { use(heap); }).join();
    EXPECT_EQ(dlclose(heap.library), 0);
  }
}

TEST(Dlopen, AThreadThatUsedItMayEndAfterItWasClosed) {
  const Family heap;
  std::atomic<bool> used{false}, closed{false};
  void* kept = nullptr;
  std::thread thread([&] {
    use(heap);
    kept = heap.allocate(100);
    used = true;
    while (!closed) std::this_thread::yield();
  });
  while (!used) std::this_thread::yield();
  dlclose(heap.library);
  closed = true;
  thread.join();
  std::memset(kept, 2, 100);  // blocks stay valid
}

}  // namespace
