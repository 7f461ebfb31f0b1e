// SPDX-License-Identifier: Apache-2.0
// Which line of the sources an address of this program is of.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <link.h>

#include "hooks.hpp"

namespace heapyard::model {
namespace {

std::uintptr_t base() {
  std::uintptr_t at = 0;
  dl_iterate_phdr([](dl_phdr_info* info, std::size_t, void* out) {
    *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
    return 1;  // the first is the program
  }, &at);
  return at;
}

}  // namespace

// addr2line of the binutils, which come with every compiler, knows what is inlined where. The innermost line of the
// heaps, else of a test, is the place.
std::string place_name(std::uintptr_t site) {
  static std::map<std::uintptr_t, std::string> known;
  auto& name = known[site];
  if (!name.empty()) return name;
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n < 0 ? 0 : n] = 0;
  char command[4300];
  std::snprintf(command, sizeof command, "addr2line -ie '%s' %#lx", self, site - base() - 1);
  std::string test = "?";
  if (FILE* lines = popen(command, "r")) {
    char line[4096];
    while (std::fgets(line, sizeof line, lines) != nullptr) {
      line[std::strcspn(line, " \n")] = 0;
      const char* heap = std::strstr(line, "/heap/");
      for (const char* more = heap; more != nullptr; more = std::strstr(heap + 1, "/heap/")) heap = more;
      if (std::strstr(line, "/tests/native/") != nullptr) {
        if (test == "?") test = std::strstr(line, "tests/native/");
      } else if (heap != nullptr && name.empty()) {
        name = heap + 1;
      }
    }
    pclose(lines);
  }
  if (name.empty()) name = test;
  return name;
}

}  // namespace heapyard::model
