// SPDX-License-Identifier: Apache-2.0
// larson: options, run, result.
#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostSize = 1 << 30;
constexpr std::int64_t kMost = std::int64_t{1} << 40;

larson::Options parse(int argc, char** argv, kit::Result& result) {
  larson::Options o;
  std::int64_t beyond = 0;  // the original's maximum, which no size reaches
  const Option own[] = {
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "largest size"},
      {'c', "chunks", "N", Whole{&o.chunks, 1, 100'000'000}, "objects that a thread holds"},
      {0, "rounds", "N", Whole{&o.rounds, 1, kMost}, "replacements of one thread, in multiples of its objects"},
      {'g', "generations", "N", Whole{&o.generations, 1, kMost}, "threads that follow each other on one slice"},
      {0, "seconds", "S", Whole{&o.seconds, 0, 1'000'000},
       "run for this time instead of a number of generations; 0: fixed work"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "larson",
      "A server whose threads replace random objects and hand them over to new threads. After larson (Larson and "
      "Krishnan, ISMM 1998).",
      "  larson --threads 4 --min-size 8 --max-size 1000 --generations 20\n"
      "  larson 10 7 8 1000 10000 1 4      seconds, sizes from, sizes below, objects\n"
      "                                    and rounds of a thread, seed, threads, as\n"
      "                                    the original takes them\n"
      "  larson 10_7_8_1000_10000_1 4      the scalloc artifact's name of the same\n"
      "  larson 0 7 8 1000 10000 1 4       the same with work fixed by --generations\n"};
  const int rest = parse_options(argc, argv, table, usage);
  const Positional positionals[] = {
      {"SECONDS", {&o.seconds, 0, 1'000'000}},
      {"MIN", {&o.min_size, 1, kMostSize}},
      {"MAX", {&beyond, 1, kMostSize}},
      {"CHUNKS", {&o.chunks, 1, 100'000'000}},
      {"ROUNDS", {&o.rounds, 1, kMost}},
      {"SEED", {&o.common.seed, 0, INT64_MAX}},
      {"THREADS", {&o.common.threads, 1, kit::kMostThreads}},
  };
  parse_positionals(argc, argv, rest, positionals);
  if (beyond) o.max_size = beyond > o.min_size ? beyond - 1 : beyond;
  check_range("size", o.min_size, o.max_size);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("larson", "1.0");
  const larson::Options o = parse(argc, argv, result);
  kit::Session session(o.common, static_cast<std::size_t>(o.chunks) * sizeof(void*));
  larson::Workload workload(o, session);
  session.run(workload);

  session.report(result, o.seconds == 0);
  Text headline;
  headline << o.chunks << " objects a thread of " << o.min_size << " to " << o.max_size << " bytes, "
           << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
