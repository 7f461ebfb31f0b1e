// SPDX-License-Identifier: Apache-2.0
// false_sharing: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMost = std::int64_t{1} << 40;

false_sharing::Options parse(int argc, char** argv, kit::Result& result) {
  false_sharing::Options o;
  const char* mode = "active";
  const char* placement = "heap";
  std::int64_t concurrency = 0;  // a hint that means nothing here
  const Option own[] = {
      {'m', "mode", "MODE", Word{&mode, "active|passive"},
       "active: each thread allocates for itself; passive: one thread allocates the first object of each"},
      {'i', "iterations", "N", Whole{&o.iterations, 1, kMost}, "objects of each thread, one after the other"},
      {'s', "size", "BYTES", Whole{&o.size, 1, 1 << 20, true}, "size of an object"},
      {'w', "repetitions", "N", Whole{&o.repetitions, 1, kMost},
       "times an object is written and read, shared out among the threads"},
      {0, "placement", "HOW", Word{&placement, "heap|padded"},
       "padded: each object on cache lines of its own, for comparison"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "false_sharing",
      "Threads write to objects of their own; an allocator that puts two of them into one cache line makes it slow. "
      "After cache-thrash and cache-scratch of Hoard (Berger et al., ASPLOS 2000).",
      "  false_sharing --mode active --threads 2\n"
      "  false_sharing --mode passive 4 1000 8 1000000\n"
      "                                    threads, iterations, size, repetitions, as\n"
      "                                    the originals take them\n"
      "  false_sharing -m active -n 4 1000_8_1000000\n"
      "                                    the scalloc artifact's name of the same\n"
      "  false_sharing --placement padded  the baseline: no line is shared\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional positionals[] = {
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}, true},
      {"ITERATIONS", {&o.iterations, 1, kMost}},
      {"SIZE", {&o.size, 1, 1 << 20}},
      {"REPETITIONS", {&o.repetitions, 1, kMost}},
      {"CONCURRENCY", {&concurrency, 0, kMost}},
  };
  parse_positionals(argc, argv, rest, positionals);
  o.mode = std::string_view(mode) == "passive" ? false_sharing::Mode::kPassive : false_sharing::Mode::kActive;
  o.placement =
      std::string_view(placement) == "padded" ? false_sharing::Placement::kPadded : false_sharing::Placement::kHeap;
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("false_sharing", "1.0");
  const false_sharing::Options o = parse(argc, argv, result);
  kit::Session session(o.common, false_sharing::Workload::bytes_per_worker());
  false_sharing::Workload workload(o, session);
  session.run(workload);

  result.metric("store_throughput", "1/s", kit::Better::kHigher,
                static_cast<double>(workload.stores()) / session.wall_seconds());
  result.metric("line_sharing", "1", kit::Better::kLower, workload.line_sharing());
  session.report(result);
  result.count("stores", workload.stores());
  Text headline;
  headline << (o.mode == false_sharing::Mode::kPassive ? "passive" : "active") << ", " << o.iterations << " objects of "
           << o.size << " bytes, " << o.repetitions << " repetitions, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
