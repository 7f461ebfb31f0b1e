// SPDX-License-Identifier: Apache-2.0
// factorial: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "processors.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;
using kit::Better;

constexpr std::int64_t kMostAllocations = 2'000'000'000;
constexpr std::int64_t kMostSize = 1 << 30;
// In the order of the enumerations.
constexpr std::string_view kZero = "each|later|never";
constexpr std::string_view kHalf = "first|alternate|random";

factorial::Options parse(int argc, char** argv, kit::Result& result) {
  factorial::Options o;
  const char* zero = "each";
  const char* half = "first";
  const char* releaser = "owner";
  const Option own[] = {
      {'a', "allocations", "N", Whole{&o.allocations, 1, kMostAllocations}, "NA: shared out among the threads"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "SA: smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "SA: largest size"},
      {'p', "processors", "N", Whole{&o.processors, 0, CPU_SETSIZE},
       "NP: processors that the threads may use, each on a core of its own as long as there are such; 0: as started"},
      {0, "zero", "WHEN", Word{&zero, kZero},
       "each: an object is filled with zeros right after its allocation; later: in a phase of its own, which tells the "
       "times of both apart"},
      {0, "release", "HALF", Word{&half, kHalf}, "which half of the objects is released"},
      {0, "releaser", "WHO", Word{&releaser, "owner|neighbour"}, "neighbour: the next thread releases them"},
      {0, "again", "", Flag{&o.again}, "allocate as many again after the release"},
      {0, "settle", "MS", Whole{&o.settle, 0, 100'000},
       "wait after the release and look at memory once more; 0: do not"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "factorial",
      "Allocates many objects of random sizes, fills them with zeros and releases half of them. The program of the "
      "factorial study of Elias et al. (SAC 2014).",
      "  factorial --allocations 1000000 --min-size 256 --max-size 1024 --threads 4\n"
      "  factorial --release random --releaser neighbour --again --settle 100 -n 2\n"
      "  factorial 500000 16 64 4 2 1      NA, SA from and to, NT, NP, seed\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional positionals[] = {
      {"NA", {&o.allocations, 1, kMostAllocations}}, {"MIN", {&o.min_size, 1, kMostSize}},
      {"MAX", {&o.max_size, 1, kMostSize}},          {"NT", {&o.common.threads, 1, kit::kMostThreads}},
      {"NP", {&o.processors, 0, CPU_SETSIZE}},       {"SEED", {&o.common.seed, 0, INT64_MAX}},
  };
  parse_positionals(argc, argv, rest, positionals);
  check_range("size", o.min_size, o.max_size);
  o.zero = chosen<factorial::Zero>(kZero, zero);
  o.half = chosen<factorial::Half>(kHalf, half);
  o.remote = std::string_view(releaser) == "neighbour";
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

void report_times(const factorial::Options& o, const factorial::Workload& workload, kit::Result& result) {
  double all = 0;
  for (int phase = 0; phase < factorial::kTimed; ++phase)
    all += workload.phase_ms(static_cast<factorial::Timed>(phase));
  result.metric("execution_time", "ms", Better::kLower, all);
  result.metric("allocation_time", "ms", Better::kLower, workload.phase_ms(factorial::kAllocate));
  if (o.zero == factorial::Zero::kLater)
    result.metric("zero_time", "ms", Better::kLower,
                  workload.phase_ms(factorial::kZero) + workload.phase_ms(factorial::kZeroAgain));
  result.metric("release_time", "ms", Better::kLower, workload.phase_ms(factorial::kRelease));
  if (o.again) result.metric("reuse_time", "ms", Better::kLower, workload.phase_ms(factorial::kAgain));
}

// Bytes above the base, and the same as a multiple of what the workload holds at that moment.
void report_space(const kit::Session& session, const factorial::Workload& workload, kit::Result& result) {
  struct Names {
    const char *space, *overhead;
  };
  constexpr Names kNames[factorial::kLooks] = {{"space_filled", "overhead_filled"},
                                               {"space_released", "overhead_released"},
                                               {"space_settled", "overhead_settled"},
                                               {"space_refilled", "overhead_refilled"}};
  const std::uint64_t base = session.memory().base();
  for (int i = 0; i < factorial::kLooks; ++i) {
    const auto look = static_cast<factorial::Look>(i);
    const std::uint64_t resident = workload.resident(look);
    if (resident == 0) continue;
    const double space = resident > base ? static_cast<double>(resident - base) : 0;
    result.metric(kNames[i].space, "B", Better::kLower, space);
    result.metric(kNames[i].overhead, "1", Better::kLower, space / static_cast<double>(workload.live(look)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("factorial", "1.0");
  const factorial::Options o = parse(argc, argv, result);
  const factorial::Processors processors = factorial::use_processors(o.processors);
  kit::Session session(o.common, factorial::Workload::bytes_per_worker(o));
  factorial::Workload workload(o, session);
  session.run(workload);

  report_times(o, workload, result);
  report_space(session, workload, result);
  session.report(result);
  result.count("processors", static_cast<std::uint64_t>(processors.count));
  result.count("cores", static_cast<std::uint64_t>(processors.cores));
  Text headline;
  headline << o.allocations << " objects of " << o.min_size << " to " << o.max_size << " bytes, "
           << Counted{o.common.threads, "thread"} << " on " << Counted{processors.count, "processor"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
