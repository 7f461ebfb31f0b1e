// SPDX-License-Identifier: Apache-2.0
// What a process has mapped, as /proc/PID/maps tells. O(mappings).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace heapyard::injector {

struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  bool readable = false, writable = false, executable = false, shared = false;
  std::string path;  // empty: of no file; a deleted file's ends in " (deleted)"
};

inline std::vector<Mapping> mappings_of(pid_t pid) {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping;
    char rights[5] = {};
    int path_at = 0;
    unsigned long begin, end, offset;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*s %n", &begin, &end, rights, &offset, &path_at) < 4) continue;
    mapping.begin = begin, mapping.end = end, mapping.offset = offset;
    mapping.readable = rights[0] == 'r', mapping.writable = rights[1] == 'w';
    mapping.executable = rights[2] == 'x', mapping.shared = rights[3] == 's';
    if (path_at > 0 && static_cast<std::size_t>(path_at) < line.size()) mapping.path = line.substr(path_at);
    found.push_back(std::move(mapping));
  }
  return found;
}

}  // namespace heapyard::injector
