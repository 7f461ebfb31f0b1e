// SPDX-License-Identifier: Apache-2.0
// leak_window: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostHeld = std::int64_t{1} << 36;
constexpr std::int64_t kMostSize = 1 << 30;
constexpr std::string_view kLaws = "drift|mixed";  // in the order of leak_window::Law

leak_window::Options parse(int argc, char** argv, kit::Result& result) {
  leak_window::Options o;
  const char* law = "drift";
  const Option own[] = {
      {0, "window", "BYTES", Whole{&o.window, 1, kMostHeld, true}, "short-lived objects that a thread holds"},
      {0, "keep", "BYTES", Whole{&o.keep, 1, kMostHeld, true}, "survivors that a thread holds at most"},
      {0, "survivors", "PERCENT", Whole{&o.survivors, 0, 100}, "share of the objects that survive the window"},
      {'e', "epochs", "N", Whole{&o.epochs, 1, 1 << 20}, "periods, each with an octave of sizes of its own"},
      {0, "turns", "N", Whole{&o.turns, 1, 1 << 20}, "windows that a thread allocates in an epoch"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "largest size"},
      {0, "sizes", "LAW", Word{&law, kLaws}, "drift: each epoch has its sizes; mixed: all sizes at all times"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "leak_window",
      "A window of short-lived objects slides on while a few of them stay and the sizes change: memory that grows "
      "meanwhile is fragmentation.",
      "  leak_window --window 32M --keep 32M\n"
      "  leak_window --sizes mixed         the same without the drift, for comparison\n"
      "  leak_window --survivors 10 --turns 4 --threads 2\n"};
  const int rest = parse_options(argc, argv, table, usage);
  parse_positionals(argc, argv, rest, {});
  check_range("size", o.min_size, o.max_size);
  for (const std::int64_t held : {o.window, o.keep})
    if (held < o.max_size)
      fatal(kExitUsage, "options --window and --keep must hold an object of the maximum size ", o.max_size, ", which ",
            held, " bytes do not");
  o.law = chosen<leak_window::Law>(kLaws, law);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("leak_window", "1.0");
  const leak_window::Options o = parse(argc, argv, result);
  kit::Session session(o.common, leak_window::Workload::bytes_per_worker(o), true);
  leak_window::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  result.metric("blowup", "1", kit::Better::kLower, session.memory().blowup());
  Text headline;
  headline << "a window of " << o.window << " bytes, " << o.survivors << " percent survivors, " << o.epochs
           << " epochs, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
