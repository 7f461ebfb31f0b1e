// SPDX-License-Identifier: Apache-2.0
// shbench: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostSlots = 1'000'000'000;
constexpr std::int64_t kMostSweeps = std::int64_t{1} << 40;
constexpr std::int64_t kMostSize = 1 << 30;

struct Words {
  const char* variant = "sh6";
  const char* write = "ends";
  const char* order = "cycle";
};

void check(shbench::Options& o, const Words& words, std::int64_t calls) {
  const bool sh8 = std::string_view(words.variant) == "sh8";
  o.variant = sh8 ? shbench::Variant::kSh8 : shbench::Variant::kSh6;
  const std::string_view write = words.write;
  o.touch = write == "none" ? shbench::Touch::kNone : write == "all" ? shbench::Touch::kAll : shbench::Touch::kEnds;
  o.order = std::string_view(words.order) == "random" ? shbench::Order::kRandom : shbench::Order::kCycle;
  check_range("size", o.min_size, o.max_size);
  if (o.slots == 0) o.slots = sh8 ? 1'000'000 : calls;
  if (o.sweeps == 0) o.sweeps = sh8 ? 100'000 : calls;
  if (o.slots < o.common.threads)
    fatal(kExitUsage, o.slots, " slots are fewer than the ", o.common.threads, " threads that need one each");
  if (o.foreign < 0) o.foreign = sh8 ? 1'000'000 : 0;
  if (o.foreign && !sh8) fatal(kExitUsage, "option --foreign has no meaning without --variant sh8");
}

shbench::Options parse(int argc, char** argv, kit::Result& result) {
  shbench::Options o;
  Words words;
  o.foreign = -1;
  std::int64_t calls = 1000;
  const Option own[] = {
      {'V', "variant", "NAME", Word{&words.variant, "sh6|sh8"},
       "sh6: sizes of a range, each thread for itself; sh8: twelve fixed sizes, and remote frees"},
      {'c', "calls", "N", Whole{&calls, 1, kMostSlots}, "sh6: slots and sweeps at once, as the original counts"},
      {0, "slots", "N", Whole{&o.slots, 0, kMostSlots},
       "objects held, shared out among the threads; 0: the calls, or a million in sh8"},
      {0, "sweeps", "N", Whole{&o.sweeps, 0, kMostSweeps},
       "sh6: sweeps over all sizes; sh8: runs of one size; shared out among the threads; 0: the calls, or 100000 in "
       "sh8"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "sh6: smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "sh6: all sizes are smaller than this"},
      {0, "survivors", "PERCENT", Whole{&o.survivors, 0, 50}, "share of the slots that outlives a turn of the buffer"},
      {0, "foreign", "N", Whole{&o.foreign, 0, std::int64_t{1} << 36},
       "sh8: objects that one more thread allocates for the others to free [default 1000000]"},
      {0, "write", "WHAT", Word{&words.write, "none|ends|all"}, "which bytes of an object are written"},
      {0, "order", "ORDER", Word{&words.order, "cycle|random"},
       "sizes in their fixed order, or drawn by the seed with the same frequencies"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "shbench",
      "Allocates objects of many sizes that live for mixed times and are freed in mixed order. Behaves like sh6bench "
      "and sh8bench as they are described.",
      "  shbench --threads 4 --calls 2000 --min-size 1 --max-size 1000\n"
      "  shbench 1000000 1 8 4             calls, bounds of size, threads, as the\n"
      "                                    original asks for them\n"
      "  shbench -n 4 1000000_1_8          the scalloc artifact's name of the same\n"
      "  shbench --variant sh8 --threads 2 --foreign 2000000\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional sh6[] = {
      {"CALLS", {&calls, 1, kMostSlots}},
      {"MIN", {&o.min_size, 1, kMostSize}},
      {"MAX", {&o.max_size, 1, kMostSize}},
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}},
  };
  const Positional sh8[] = {
      {"SLOTS", {&o.slots, 1, kMostSlots}},
      {"ITERATIONS", {&o.sweeps, 1, kMostSweeps}},
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}},
      {"FOREIGN", {&o.foreign, 0, std::int64_t{1} << 36}},
  };
  parse_positionals(argc, argv, rest, std::string_view(words.variant) == "sh8" ? sh8 : sh6);
  check(o, words, calls);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("shbench", "1.0");
  const shbench::Options o = parse(argc, argv, result);
  kit::CommonOptions threads = o.common;
  if (o.variant == shbench::Variant::kSh8) ++threads.threads;  // the one that serves the others
  kit::Session session(threads, shbench::Workload::bytes_per_worker(o, static_cast<std::size_t>(o.common.threads)));

  kit::Arena sizes;
  sizes.reserve(shbench::kMostRuns * sizeof(shbench::SizeRun));
  shbench::SizeCycle cycle{sizes.take<shbench::SizeRun>(shbench::kMostRuns)};
  if (o.variant == shbench::Variant::kSh8)
    shbench::cycle_of_sh8(cycle);
  else
    shbench::sweep_of_sh6(cycle, static_cast<std::uint64_t>(o.min_size), static_cast<std::uint64_t>(o.max_size));
  shbench::Workload workload(o, session, cycle);
  session.run(workload);

  session.report(result);
  Text headline;
  headline << (o.variant == shbench::Variant::kSh8 ? "sh8" : "sh6") << ", " << o.slots << " slots, " << o.sweeps
           << " sweeps, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
