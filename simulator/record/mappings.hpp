// SPDX-License-Identifier: Apache-2.0
// Whose memory an address is, by /proc/self/maps: a module's, the heap's, a stack's, or a mapping's. O(mappings) to
// read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heapyard::simulator {

class Mappings {
 public:
  // Reads the process's mappings; addresses are the program's, which lie `base` lower than the engine's.
  explicit Mappings(std::uint64_t base);

  struct Module {
    std::string path;
    std::uint64_t low, high;  // with what follows its last file mapping: .bss
  };
  struct Mapping {
    std::uint64_t low, high;
    std::string path;  // "" for memory without a file
  };

  const Module* module_of(std::uint64_t address) const;
  const Mapping* mapping_of(std::uint64_t address) const;

 private:
  std::vector<Mapping> mappings_;
  std::vector<Module> modules_;
};

}  // namespace heapyard::simulator
