// SPDX-License-Identifier: Apache-2.0
// stress: options, run, result.
#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMost = std::int64_t{1} << 40;
constexpr std::int64_t kMostHeld = 100'000'000;
constexpr std::int64_t kLeastSize = 16;  // an object holds its number and its size
constexpr std::int64_t kMostSize = 1 << 24;

stress::Options parse(int argc, char** argv, kit::Result& result) {
  stress::Options o;
  const Option own[] = {
      {'g', "generations", "N", Whole{&o.generations, 1, kMost}, "threads that follow each other in one place"},
      {0, "steps", "N", Whole{&o.steps, 1, kMost}, "steps of a thread: make, release or swap an object"},
      {0, "slots", "N", Whole{&o.slots, 1, kMostHeld}, "objects that a thread holds at most"},
      {0, "pool", "N", Whole{&o.pool, 1, kMostHeld}, "objects that wait between the threads at most"},
      {0, "persist", "PERCENT", Whole{&o.persist, 0, 100}, "share of a thread's objects that outlives it"},
      {0, "min-size", "BYTES", Whole{&o.min_size, kLeastSize, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, kLeastSize, kMostSize, true}, "largest size of an ordinary object"},
      {0, "large", "PERCENT", Whole{&o.large, 0, 100}, "share of the objects that are a hundred times as large"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"stress",
                    "Threads that allocate, release and swap objects at random, and end while their objects live "
                    "on. In the manner of "
                    "mstress of mimalloc-bench.",
                    "  stress --threads 8 --generations 50\n"
                    "  stress --persist 90 --large 0\n"
                    "  stress 8 50 25                    threads, size of the work, generations, as\n"
                    "                                    mstress takes them\n"};
  const int rest = parse_options(argc, argv, table, usage);
  std::int64_t scale = 0;
  const Positional positionals[] = {
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}},
      {"SCALE", {&scale, 1, 1'000'000}},
      {"GENERATIONS", {&o.generations, 1, kMost}},
  };
  parse_positionals(argc, argv, rest, positionals);
  if (scale) {
    o.steps = 1000 * scale;
    o.slots = 100 * scale;
  }
  check_range("size", o.min_size, o.max_size);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("stress", "1.0");
  const stress::Options o = parse(argc, argv, result);
  kit::Session session(o.common, stress::Workload::bytes_per_worker(o), true);
  stress::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  result.metric("blowup", "1", kit::Better::kLower, session.memory().blowup());
  Text headline;
  headline << o.generations << " generations of " << o.steps << " steps, " << o.slots << " objects of " << o.min_size
           << " to " << o.max_size << " bytes, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
