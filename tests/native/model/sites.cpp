// SPDX-License-Identifier: Apache-2.0
// Which line of the sources an address of this program is of.
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "hooks.hpp"
#include "sites.hpp"

namespace heapyard::model {
namespace {

std::uintptr_t base() {
  std::uintptr_t at = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;  // the first is the program
      },
      &at);
  return at;
}

}  // namespace

// addr2line of the binutils, which come with every compiler, knows what is inlined where. The place is the innermost
// line that is of the heaps, or of a test.
std::string place_name(std::uintptr_t site) {
  static std::map<std::uintptr_t, std::string> known;
  auto& name = known[site];
  if (!name.empty()) return name;
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n < 0 ? 0 : n] = 0;
  char command[4300];
  std::snprintf(command, sizeof command, "addr2line -ie '%s' %#lx", self, site - base() - 1);
  if (FILE* lines = popen(command, "r")) {
    char line[4096];
    while (std::fgets(line, sizeof line, lines) != nullptr) {
      line[std::strcspn(line, " \n")] = 0;
      const char* at = std::strstr(line, "/tests/native/");
      if (at == nullptr) at = std::strstr(line, "/heap/");
      if (at != nullptr && name.empty()) name = at + 1;
    }
    pclose(lines);
  }
  if (name.empty()) name = "?";
  return name;
}

std::string source_line(const std::string& place) {
  const std::size_t colon = place.find(':');
  if (colon == std::string::npos) return {};
  std::ifstream file(std::string(HEAPYARD_SOURCE) + "/" + place.substr(0, colon));
  std::string line;
  for (int i = std::atoi(place.c_str() + colon + 1); i > 0 && std::getline(file, line); --i) {
  }
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? std::string() : line.substr(first, line.find("  //") - first);
}

std::string reason_for(const std::string& place, const std::string& line) {
  struct Reason {
    const char *file, *code, *why;
  };
  static constexpr Reason kReasons[] = {
#include "reasons.inc"
  };
  for (const Reason& reason : kReasons) {
    if (place.starts_with(reason.file) && line.find(reason.code) != std::string::npos) return reason.why;
  }
  return {};
}

}  // namespace heapyard::model
