// SPDX-License-Identifier: Apache-2.0
// Calls one function of the heap before anything else in this process does: from .preinit_array, ahead of constructors.
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

void first_call(int, char** words, char**) {
  void* volatile nothing = nullptr;  // the compiler drops a free of a null it can see
  const char* first = words[1] ? words[1] : "";
  void* block = nullptr;
  if (!std::strcmp(first, "free-null")) free(nothing);
  if (!std::strcmp(first, "malloc")) block = malloc(100);
  if (!std::strcmp(first, "calloc")) block = calloc(3, 100);
  if (!std::strcmp(first, "realloc")) block = realloc(nothing, 5000);
  if (!std::strcmp(first, "aligned")) block = aligned_alloc(64, 128);
  if (!std::strcmp(first, "new")) block = operator new(48);
  if (!std::strcmp(first, "usable-null") && malloc_usable_size(nothing) != 0) _exit(3);
  if (block) std::memset(block, 1, 48);
  free(block);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_all)(int, char**, char**) = first_call;

}  // namespace

int main(int, char** words) {
  if (words[1] && !std::strcmp(words[1], "thread")) {
    // The first call of a thread is the free of another's block.
    void* block = malloc(40);
    std::thread([&] { free(block); }).join();
    std::thread([] { free(realloc(nullptr, 10)); }).join();
  }
  return 0;
}
