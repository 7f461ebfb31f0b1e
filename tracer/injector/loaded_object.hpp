// SPDX-License-Identifier: Apache-2.0
// An object (program or library) that a process has loaded, read from the process's own memory: the file of that name
// may have been replaced since, and then has other addresses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/injector/mappings.hpp"
#include "tracer/injector/process_memory.hpp"

namespace heapyard::injector {

struct Range {
  std::uint64_t begin = 0, end = 0;
  bool holds(std::uint64_t address) const { return address >= begin && address < end; }
};

struct LoadedObject {
  std::string path;
  std::vector<Range> text;                            // what is executable
  std::vector<Range> slack;                           // after it, to the end of its last page: nobody's
  std::map<std::string, Range, std::less<>> symbols;  // functions it exports

  std::string_view name() const { return std::string_view(path).substr(path.rfind('/') + 1); }
  bool is_c_library() const { return name().starts_with("libc.so"); }
  bool is_dynamic_linker() const { return name().starts_with("ld-linux"); }
  bool holds(std::uint64_t address) const {
    for (const Range& range : text)
      if (range.holds(address)) return true;
    return false;
  }
  const Range* function(std::string_view name) const {
    const auto found = symbols.find(name);
    return found == symbols.end() ? nullptr : &found->second;
  }
};

// Every object whose header is mapped. O(mappings and exported symbols).
std::vector<LoadedObject> loaded_objects(const ProcessMemory& memory, const std::vector<Mapping>& mappings);

}  // namespace heapyard::injector
