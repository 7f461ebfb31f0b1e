// SPDX-License-Identifier: Apache-2.0
// xmalloc: options, run, result.
#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMost = std::int64_t{1} << 24;

xmalloc::Options parse(int argc, char** argv, kit::Result& result) {
  xmalloc::Options o;
  std::int64_t pairs = 0;
  const Option own[] = {
      {0, "producers", "N", Whole{&o.producers, 0, kit::kMostThreads}, "of the threads, so many allocate; 0: half"},
      {'w', "pairs", "N", Whole{&pairs, 0, kit::kMostThreads / 2},
       "so many producers and as many consumers, as the original counts; 0: see --threads"},
      {'s', "size", "BYTES", Whole{&o.size, -1, 1 << 30, true},
       "size of an object; -1: one of 17 sizes from 8 to 2048, each as likely"},
      {'o', "objects", "N", Whole{&o.objects, 1, 1 << 20}, "objects of a batch"},
      {'b', "batches", "N", Whole{&o.batches, 1, kMost}, "batches of each producer"},
      {'t', "seconds", "S", Whole{&o.seconds, 0, 1'000'000},
       "run for this time instead of a number of batches; 0: fixed work"},
      {0, "waiting", "N", Whole{&o.waiting, 1, 1 << 20}, "batches that may wait for a consumer"},
      {0, "last-first", "", Flag{&o.last_first}, "consumers take what came last, as in the original"},
      {'d', "detail", "", Ignored{false}, ""},
      {'v', "verbose", "", Ignored{false}, ""},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"xmalloc",
                    "Some threads only allocate, others only release. Behaves like xmalloc-test as it is described.",
                    "  xmalloc --threads 4 --size 64\n"
                    "  xmalloc --threads 4 --producers 1 --size -1 --batches 1000\n"
                    "  xmalloc -w 2 -t 5 -s 64           pairs of threads, seconds, size, as the\n"
                    "                                    original takes them\n"};
  const int rest = parse_options(argc, argv, table, usage);
  parse_positionals(argc, argv, rest, {});
  if (o.size == 0) fatal(kExitUsage, "option --size (-s) must be -1 or a size from 1 on, not 0");
  if (pairs) {
    o.common.threads = 2 * pairs;
    o.producers = pairs;
  }
  if (o.producers && o.producers >= o.common.threads)
    fatal(kExitUsage, "option --producers needs fewer than the ", o.common.threads,
          " threads, so that one is left to release");
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("xmalloc", "1.0");
  const xmalloc::Options o = parse(argc, argv, result);
  kit::Session session(o.common, xmalloc::Workload::bytes_per_worker(o));
  xmalloc::Workload workload(o, session);
  session.run(workload);

  const auto releases = static_cast<double>(session.total(kit::Phase::kMeasured).releases);
  result.metric("release_throughput", "1/s", kit::Better::kHigher, releases / session.wall_seconds());
  session.report(result, o.seconds == 0);
  Text headline;
  headline << xmalloc::Workload::producers(o) << " of " << o.common.threads
           << (o.common.threads == 1 ? " thread allocates" : " threads allocate");
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
