// SPDX-License-Identifier: Apache-2.0
#include "control_group.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "proc_file.hpp"

namespace heapyard::trial {

std::int64_t ControlGroup::number(const char* name) const {
  char path[4096], text[64];
  std::snprintf(path, sizeof path, "%s/%s", folder_, name);
  return read_whole(path, text, sizeof text) ? std::atoll(text) : 0;  // "max", or no such file: 0
}

std::int64_t ControlGroup::of_files() const {
  char path[4096], text[8192];
  std::snprintf(path, sizeof path, "%s/memory.stat", folder_);
  if (!read_whole(path, text + 1, sizeof text - 1)) return files_;
  text[0] = '\n';
  const auto line = [&](const char* name) {
    const char* const at = std::strstr(text, name);
    return at ? std::atoll(at + std::strlen(name)) : 0;
  };
  return std::max<std::int64_t>(line("\nfile ") - line("\nshmem "), 0) + line("\nslab_reclaimable ");
}

void ControlGroup::look() {
  if (!folder_) return;
  const std::int64_t peak = number("memory.peak");
  const std::int64_t most = peak > peak_ ? peak : number("memory.current");
  const std::int64_t files = of_files();
  const std::int64_t charged = most - files + number("memory.swap.current");
  if (charged > charged_) {
    charged_ = charged;
    error_ = std::abs(files - files_);
  }
  peak_ = std::max(peak_, peak);
  files_ = files;
}

void ControlGroup::finish() { look(); }

}  // namespace heapyard::trial
