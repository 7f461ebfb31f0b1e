// SPDX-License-Identifier: Apache-2.0
// threadtest: options, run, result.
#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMost = std::int64_t{1} << 40;

threadtest::Options parse(int argc, char** argv, kit::Result& result) {
  threadtest::Options o;
  std::int64_t units = 0;  // of 8 bytes, as the original counts
  const Option own[] = {
      {'i', "iterations", "N", Whole{&o.iterations, 1, kMost}, "rounds"},
      {'o', "objects", "N", Whole{&o.objects, 1, 1'000'000'000}, "objects per round, shared out among the threads"},
      {'w', "work", "N", Whole{&o.work, 0, kMost}, "rounds of a busy loop before each call"},
      {'s', "size", "BYTES", Whole{&o.size, 1, 1 << 30, true}, "size of an object"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "threadtest",
      "Allocates many objects of one size, writes them, frees them in order, round after round, each thread for "
      "itself. After threadtest of Hoard (Berger et al., ASPLOS 2000).",
      "  threadtest --threads 4 --size 64 --iterations 1000 --objects 100000\n"
      "  threadtest 4 10000 100000 0 8     threads, iterations, objects, work, size in\n"
      "                                    units of 8 bytes, as the original takes them\n"
      "  threadtest -n 4 10000_100000_0_8  the scalloc artifact's name of the same\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional positionals[] = {
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}, true},
      {"ITERATIONS", {&o.iterations, 1, kMost}},
      {"OBJECTS", {&o.objects, 1, 1'000'000'000}},
      {"WORK", {&o.work, 0, kMost}},
      {"UNITS", {&units, 1, 1 << 27}},
  };
  parse_positionals(argc, argv, rest, positionals);
  if (units) o.size = 8 * units;
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("threadtest", "1.0");
  const threadtest::Options o = parse(argc, argv, result);
  threadtest::Workload workload(o);
  kit::Session session(o.common, workload.objects_of(0) * sizeof(void*));
  for (std::size_t i = 0; i < session.threads(); ++i) session.worker(i).make_table<void*>(workload.objects_of(i));
  session.run(workload);

  session.report(result);
  Text headline;
  headline << o.objects << " objects of " << o.size << " bytes, " << o.iterations << " rounds, "
           << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
