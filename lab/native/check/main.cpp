// SPDX-License-Identifier: Apache-2.0
// check_heap: one case of `heapyard check` under whatever malloc this process was started with.
//
//   check_heap --list             every case as a JSON array
//   check_heap GROUP/NAME         runs it; prints what it found as one JSON object; exit code 0, or 1 if it failed
//   check_heap GROUP/NAME quick   the same with less work, or with `deep` much more
//   check_heap --inner NAME ...   what a case runs as a process of its own (inner.hpp)
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/json.hpp"
#include "case.hpp"
#include "inner.hpp"

namespace {

using namespace heapyard;
using namespace heapyard::check;

constexpr std::span<const Case> (*kGroups[])() = {
    conformance_cases, errno_cases, cxx_cases,    process_cases, forking_cases, stress_cases,  storm_cases,
    limit_cases,       share_cases, memory_cases, system_cases,  core_cases,    latency_cases, detection_cases};

int list() {
  Text text;
  Json json(text);
  json.open('[');
  for (const auto group : kGroups) {
    for (const Case& item : group()) {
      json.open('{').field("group", item.group).field("name", item.name).field("about", item.about);
      json.field("information", item.information).field("setting", item.setting).close('}');
    }
  }
  json.close(']');
  text << '\n';
  return text.write_to(STDOUT_FILENO) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--list")) return list();
  if (argc == 5 && !std::strcmp(argv[1], "--inner")) {
    // Without this program's destructors, which allocate: a limit may leave them nothing.
    _exit(be_inner(argv[2], argv[3], argv[4]));
  }
  char name[128];
  for (const auto group : kGroups) {
    for (const Case& item : group()) {
      std::snprintf(name, sizeof name, "%s/%s", item.group, item.name);
      if (argc < 2 || std::strcmp(argv[1], name) != 0) continue;
      Report report;
      const char* amount = argc > 2 ? argv[2] : "";
      item.run(report, {!std::strcmp(amount, "quick"), !std::strcmp(amount, "deep")});
      return report.finish();
    }
  }
  std::fprintf(stderr, "check_heap: there is no case '%s'; --list shows them\n", argc > 1 ? argv[1] : "");
  return 2;
}
