// SPDX-License-Identifier: Apache-2.0
// Containers of C++ in a heap of their own: all of it goes at once.
#include <heapyard.hpp>

#include <iostream>
#include <map>
#include <string>

int main() {
  heapyard::memory_resource resource;
  for (int round = 0; round < 3; ++round) {
    using Words = std::pmr::map<std::pmr::string, int>;
    auto* words = new (resource.allocate(sizeof(Words), alignof(Words))) Words(&resource);  // nobody destroys it
    for (int i = 0; i < 10'000; ++i) ++(*words)[std::pmr::string("a word of the index: " + std::to_string(i))];
    std::cout << words->size() << " words in " << heapyard_heap_bytes(resource.heap()) / 1024 << " KiB\n";
    resource.release();
  }
}
