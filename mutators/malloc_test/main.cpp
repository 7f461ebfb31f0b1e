// SPDX-License-Identifier: Apache-2.0
// malloc_test: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMost = 1'000'000'000'000;
constexpr std::int64_t kMostHeld = 1'000'000'000;        // by one thread
constexpr std::string_view kModes = "pairs|rows|chain";  // in the order of malloc_test::Mode

malloc_test::Options parse(int argc, char** argv, kit::Result& result) {
  malloc_test::Options o;
  const char* mode = "pairs";
  const Option own[] = {
      {'m', "mode", "MODE", Word{&mode, kModes},
       "pairs: a release after each allocation; rows: all allocations, then all releases; chain: random replacement by "
       "threads that follow each other"},
      {'s', "size", "BYTES", Whole{&o.size, 1, 1 << 30, true}, "size of every object"},
      {'i', "iterations", "N", Whole{&o.iterations, 1, kMost}, "pairs and rows: objects of each thread"},
      {'o', "objects", "N", Whole{&o.objects, 1, kMostHeld}, "chain: objects that a thread holds and then replaces"},
      {'g', "generations", "N", Whole{&o.generations, 1, kMost}, "chain: threads that follow each other on one slice"},
      {'w', "write", "", Flag{&o.write}, "write every object; the original leaves them alone"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "malloc_test",
      "Objects of one size, each thread for itself: in pairs of calls, in rows, or down a chain of threads. After "
      "malloc-test of Lever and Boreham (USENIX 2000).",
      "  malloc_test --threads 4 --size 512 --iterations 10000000\n"
      "  malloc_test --mode chain --size 40 --generations 50\n"
      "  malloc_test --mode rows 512 1000000 4\n"
      "                                    size, iterations, threads, as the original\n"
      "                                    takes them\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional positionals[] = {
      {"SIZE", {&o.size, 1, 1 << 30}},
      {"ITERATIONS", {&o.iterations, 1, kMost}},
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}},
  };
  parse_positionals(argc, argv, rest, positionals);
  o.mode = chosen<malloc_test::Mode>(kModes, mode);
  if (o.mode == malloc_test::Mode::kRows && o.iterations > kMostHeld)
    fatal(kExitUsage, "--mode rows holds at most ", kMostHeld, " objects a thread, not ", o.iterations);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("malloc_test", "1.0");
  const malloc_test::Options o = parse(argc, argv, result);
  kit::Session session(o.common, malloc_test::Workload::slots(o) * sizeof(void*));
  malloc_test::Workload workload(o, session);
  session.run(workload);

  // What the original prints.
  result.metric("thread_time_mean", "ms", kit::Better::kLower, workload.time_mean());
  result.metric("thread_time_deviation", "ms", kit::Better::kLower, workload.time_deviation());
  session.report(result);
  Text headline;
  headline << "objects of " << o.size << " bytes, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
