// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/target_process.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace heapyard::injector {

namespace {

std::string start_of(pid_t pid) {
  std::ifstream auxiliary("/proc/" + std::to_string(pid) + "/auxv", std::ios::binary);
  return {std::istreambuf_iterator<char>(auxiliary), {}};
}

}  // namespace

TargetProcess::TargetProcess(pid_t pid_of_it)
    : pid(pid_of_it), memory(pid_of_it), unwinder(pid_of_it, memory), start_(start_of(pid_of_it)) {
  const std::vector<Mapping> mappings = mappings_of(pid);
  if (!mappings.empty()) known_address_ = mappings.front().begin;
  const std::vector<LoadedObject> objects = loaded_objects(memory, mappings);
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error).string();
  unsafe_.emplace(objects, program);
  for (const LoadedObject& object : objects) {
    for (const Range& range : object.slack)
      for (const Mapping& mapping : mappings)
        if (mapping.executable && !mapping.writable && !mapping.shared && mapping.path == object.path &&
            range.begin >= mapping.begin && range.end <= mapping.end)
          slack.push_back(range);
    if (!object.is_c_library()) continue;
    has_c_library_ = true;
    const auto address = [&](const char* name) {
      const Range* function = object.function(name);
      return function == nullptr ? 0 : function->begin;
    };
    dlopen = address("dlopen"), dlsym = address("dlsym"), dlerror = address("dlerror");
    errno_location = address("__errno_location");
  }
}

// A child of vfork has its parent's memory until it execs: so its start is looked at beside its memory.
bool TargetProcess::is_still_it() const {
  unsigned char byte;
  return memory.read(known_address_, byte) && start_of(pid) == start_;
}

std::string TargetProcess::why_not() const {
  if (!has_c_library_) return "it has loaded no C library";
  if (dlopen == 0 || dlsym == 0 || dlerror == 0 || errno_location == 0)
    return "its C library has no dlopen of its own: glibc is older than 2.34";
  return {};
}

}  // namespace heapyard::injector
