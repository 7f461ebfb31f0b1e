// SPDX-License-Identifier: Apache-2.0
// The heaps' protocols under the checker, and what each order in them is for: every order that a site of the heaps asks
// for is weakened, one at a time, and some protocol must fail. As text, or as the tables of docs/measured/schedules.md.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "hooks.hpp"
#include "litmus.hpp"
#include "protocols.hpp"
#include "sites.hpp"

namespace heapyard::model {
namespace {

constexpr const char* kUsage =
    "usage: heap_schedules [--markdown] [--most N] [--only TEXT] [--mutants N] [--schedule]\n"
    "       heap_schedules --litmus N | --herd N FOLDER\n"
    "Runs the heaps' protocols under every schedule, N executions of each at most (1000000), and of each with a "
    "weakened\n"
    "order (20000; 0: none). --schedule shows the steps that failed. --litmus prints the final states of N random "
    "programs, --herd\n"
    "writes them for herd7. Exit code 1: a protocol failed, or a weakened order that should be caught was not.\n";
struct Run {
  const Protocol* protocol;
  Outcome outcome;
  double seconds;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string count(std::size_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string full_name(const Protocol& protocol) {
  return protocol.name + ", " + std::to_string(protocol.threads) + " threads";
}

// A bar would end the cell of a table.
std::string cell(const std::string& text, bool markdown) {
  std::string out;
  for (const char c : text) out += markdown && c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// A place of the heaps, and the orders it asks for.
struct Asked {
  Kind kind;
  bool on_failure;
  std::memory_order order;
  std::vector<Site> sites;        // copies of the code
  std::vector<std::size_t> runs;  // protocols that pass it
};

struct Mutant {
  std::memory_order order;
  const Run* caught = nullptr;  // the protocol that did
  std::size_t executions = 0;
  std::string fault;
};

const char* word(std::memory_order order) {
  static constexpr const char* kOrders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return kOrders[static_cast<int>(order)];
}
const char* word(Kind kind) {
  static constexpr const char* kKinds[] = {
      "load", "store", "read-modify-write", "compare-and-swap", "fence", "membarrier", "lock", "unlock", "", "",
      "",     ""};
  return kKinds[static_cast<int>(kind)];
}
std::string asked_word(const Asked& asked) {
  if (asked.kind == Kind::lock || asked.kind == Kind::unlock || asked.kind == Kind::remote_fence)
    return word(asked.kind);
  return std::string(word(asked.kind)) + (asked.on_failure ? " that fails, " : ", ") + word(asked.order);
}

// Weaker orders that mean something for this kind, the weakest first.
std::vector<std::memory_order> weaker(const Asked& asked) {
  using enum std::memory_order;
  std::vector<std::memory_order> all{relaxed};
  const bool reads = asked.kind != Kind::store, writes = asked.kind != Kind::load && !asked.on_failure;
  if (asked.kind == Kind::lock || asked.kind == Kind::unlock || asked.kind == Kind::remote_fence) return all;
  if (reads && (asked.order == acq_rel || asked.order == seq_cst)) all.push_back(acquire);
  if (writes && (asked.order == acq_rel || asked.order == seq_cst)) all.push_back(release);
  if (reads && writes && asked.order == seq_cst) all.push_back(acq_rel);
  return all;
}

Mutant try_weakened(const std::vector<Run>& runs, const Asked& asked, std::memory_order order, std::size_t most) {
  Mutant mutant{order, nullptr, 0, {}};
  for (const std::size_t i : asked.runs) {
    Options options;
    options.inserts = runs[i].protocol->inserts;
    options.most = most;
    for (const Site& site : asked.sites) options.weakened[site] = order;
    const Outcome outcome = explore(runs[i].protocol->program, options);
    mutant.executions += outcome.executions;
    if (outcome.fault.empty()) continue;
    mutant.caught = &runs[i];
    mutant.executions = outcome.executions;
    mutant.fault = outcome.fault;
    break;
  }
  return mutant;
}

int schedules(bool markdown, std::size_t most, const char* only, std::size_t mutants, bool shows) {
  const Protocols all = protocols();
  std::vector<Run> runs;
  int code = 0;
  if (markdown)
    std::puts(
        "| protocol | file | threads | executions | steps of the last | all of them | s "
        "|\n|---|---|---|---|---|---|---|");
  for (const Protocol& protocol : all) {
    if (only != nullptr && protocol.name.find(only) == std::string::npos) continue;
    const double before = processor_seconds();
    Options options;
    options.most = most;
    options.inserts = protocol.inserts;
    runs.push_back({&protocol, explore(protocol.program, options), 0});
    Run& run = runs.back();
    run.seconds = processor_seconds() - before;
    std::printf(markdown ? "| %s | `%s` | %u | %s | %zu | %s | %.1f |\n"
                         : "%s (%s), %u threads: %s executions of %zu steps, %s, %.1f s\n",
                protocol.name.c_str(), protocol.file.c_str(), protocol.threads, count(run.outcome.executions).c_str(),
                run.outcome.steps, run.outcome.complete ? "yes" : "no", run.seconds);
    std::fflush(stdout);
    if (run.outcome.fault.empty()) continue;
    code = 1;
    std::printf("FAULT in %s: %s\n", full_name(protocol).c_str(), run.outcome.fault.c_str());
    for (const std::string& step : run.outcome.schedule) {
      if (shows) std::printf("    %s\n", step.c_str());
    }
  }
  if (mutants == 0 || code != 0) return code;

  // By place and operation; protocols that are quickly done first.
  std::map<std::pair<std::string, std::string>, Asked> asked;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [site, order] : runs[i].outcome.sites) {
      const std::string place = place_name(site.at);
      if (!place.starts_with("heap/")) continue;
      const std::string operation = std::string(word(site.kind)) + (site.on_failure ? " fails" : "");
      Asked& entry =
          asked.try_emplace({place, operation}, Asked{site.kind, site.on_failure, order, {}, {}}).first->second;
      if (std::ranges::find(entry.sites, site) == entry.sites.end()) entry.sites.push_back(site);
      if (std::ranges::find(entry.runs, i) == entry.runs.end()) entry.runs.push_back(i);
    }
  }
  if (markdown) {
    std::puts(
        "\n| code | place | asks for | weakened to | caught by | as | executions |\n|---|---|---|---|---|---|---|");
  }
  for (auto& [where, entry] : asked) {
    std::ranges::sort(entry.runs, {}, [&](std::size_t i) { return runs[i].outcome.executions; });
    const std::string code_line = source_line(where.first);
    for (const std::memory_order order : weaker(entry)) {
      const Mutant mutant = try_weakened(runs, entry, order, mutants);
      const char* const to = entry.kind == Kind::lock || entry.kind == Kind::unlock ||
                                     entry.kind == Kind::remote_fence ||
                                     (entry.kind == Kind::fence && order == std::memory_order_relaxed)
                                 ? "none"
                                 : word(order);
      const std::string by = mutant.caught != nullptr ? full_name(*mutant.caught->protocol)
                                                      : "nobody: " + reason_for(where.first, code_line);
      if (mutant.caught == nullptr && reason_for(where.first, code_line).empty()) code = 1;
      std::printf(markdown ? "| `%s` | `%s` | %s | %s | %s | %s | %s |\n" : "%s (%s): %s -> %s: %s, %s, %s\n",
                  cell(code_line, markdown).c_str(), where.first.c_str(), asked_word(entry).c_str(), to, by.c_str(),
                  mutant.fault.c_str(), count(mutant.executions).c_str());
      std::fflush(stdout);
      if (mutant.caught == nullptr) break;  // what lies between is not needed either
    }
  }
  return code;
}

}  // namespace
}  // namespace heapyard::model

int main(int words, char** word) {
  using namespace heapyard::model;
  bool markdown = false, shows = false;
  std::size_t most = 1'000'000, mutants = 20'000;
  const char* only = nullptr;
  for (int i = 1; i < words; ++i) {
    const std::string option = word[i];
    const auto number = [&] { return i + 1 < words ? std::strtoul(word[++i], nullptr, 10) : 0; };
    if (option == "--markdown") {
      markdown = true;
    } else if (option == "--mutants") {
      mutants = number();
    } else if (option == "--schedule") {
      shows = true;
    } else if (option == "--only" && i + 1 < words) {
      only = word[++i];
    } else if (option == "--most") {
      most = number();
    } else if (option == "--litmus") {
      for (std::uint64_t seed = 1, last = number(); seed <= last; ++seed) {
        Outcome outcome;
        std::printf("%lu", seed);
        for (const std::string& state : states_of(drawn_litmus(seed), {}, outcome)) std::printf(" | %s", state.c_str());
        std::puts("");
      }
      return 0;
    } else if (option == "--herd" && i + 2 < words) {
      const std::uint64_t last = number();
      const std::string folder = word[++i];
      for (std::uint64_t seed = 1; seed <= last; ++seed)
        std::ofstream(folder + "/" + std::to_string(seed) + ".litmus")
            << herd_of(drawn_litmus(seed), std::to_string(seed));
      return 0;
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  return schedules(markdown, most == 0 ? 1 : most, only, mutants, shows);
}
