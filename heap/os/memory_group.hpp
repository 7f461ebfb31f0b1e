// SPDX-License-Identifier: Apache-2.0
// How much memory the process's control group may have, as the kernel's files say: a container's limit.
//
// Idea: such a limit refuses nothing; it kills who goes beyond it. So a heap must ask. A group's limit is the least of
// its own and those of all groups above it. A container may see its own group as the root, and its path as it is
// outside: the walk upwards ends at that root. Cost: three system calls for each file, one for each level. Allocates
// nothing; no cancellation point.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "heap/os/file_text.hpp"
#include "heap/os/pages.hpp"

namespace heapyard::os {

// From `from` up to `to`, both within the text. substr() may throw, which would take the library of C++.
constexpr std::string_view part(std::string_view text, std::size_t from, std::size_t to) {
  return {text.data() + from, to - from};
}

// The path of a group in the text of /proc/self/cgroup, whose lines are "number:controllers,with,commas:path"; empty if
// there is none. `controller`: "memory" for control groups of version 1, "" for those of version 2.
constexpr std::string_view group_path(std::string_view text, std::string_view controller) {
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    const std::string_view line = part(text, 0, end);
    const std::size_t from = line.find(':'), to = from == line.npos ? from : line.find(':', from + 1);
    if (to == line.npos) continue;
    for (std::size_t at = from; at < to; at = std::min(line.find(',', at + 1), to)) {
      const std::size_t next = std::min(line.find(',', at + 1), to);
      if (part(line, at + 1, next) == controller) return part(line, to + 1, line.size());
    }
  }
  return {};
}

// The least of the numbers in `file` of the group at `path` below `mount` and of all groups above it; SIZE_MAX when
// there is none.
inline std::size_t least_limit(std::string_view mount, std::string_view path, std::string_view file) {
  std::size_t least = SIZE_MAX;
  for (;;) {  // bound: levels of the path
    if (path.ends_with('/')) path.remove_suffix(1);
    char name[1024], text[32];
    if (mount.size() + path.size() + file.size() < sizeof name) {
      char* end = name;
      for (const std::string_view part : {mount, path, file}) end = std::copy(part.begin(), part.end(), end);
      *end = '\0';
      const std::string_view digits = file_text(name, text);
      std::size_t limit;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), limit).ec == std::errc{})
        least = std::min(least, limit);
    }
    if (path.empty()) return least;
    const std::size_t end = path.rfind('/');
    path = part(path, 0, end == path.npos ? 0 : end);
  }
}

// Bytes that the group of the process may have at most, of memory that it touches; huge when there is no limit.
[[gnu::noinline, gnu::cold]] inline std::size_t group_limit() {
  const KeepErrno keep;
  char space[4096];
  const std::string_view text = file_text("/proc/self/cgroup", space);
  std::size_t least = SIZE_MAX;
  if (const std::string_view path = group_path(text, "memory"); !path.empty())
    least = least_limit("/sys/fs/cgroup/memory", path, "/memory.limit_in_bytes");
  if (const std::string_view path = group_path(text, ""); !path.empty())
    least = std::min(least, least_limit("/sys/fs/cgroup", path, "/memory.max"));
  return least;
}

}  // namespace heapyard::os
