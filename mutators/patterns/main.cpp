// SPDX-License-Identifier: Apache-2.0
// patterns: options, run, result.
#include <cstdio>
#include <cstdlib>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMost = std::int64_t{1} << 40;

[[noreturn]] void list_patterns() {
  int number = 0;
  for (const char* pattern : patterns::all_patterns()) std::printf("%2d  %s\n", ++number, pattern);
  std::exit(0);
}

patterns::Options parse(int argc, char** argv, kit::Result& result, const char*& notation) {
  patterns::Options o;
  bool list = false;
  const Option own[] = {
      {'p', "pattern", "PATTERN", Word{&notation}, "one of the report's patterns, by notation or number"},
      {'f', "footprint", "BYTES", Whole{&o.footprint, 1, kMost, true},
       "bytes of the blocks first allocated, shared out among the threads"},
      {'N', "blocks", "N", Whole{&o.blocks, 0, 1 << 28}, "so many blocks instead; 0: what the footprint holds"},
      {'i', "rounds", "N", Whole{&o.rounds, 1, kMost}, "times that the pattern is played"},
      {'w', "word", "BYTES", Whole{&o.word, 1, 64}, "bytes in the unit of the pattern's sizes"},
      {0, "lifo", "", Flag{&o.lifo}, "alt: both halves are freed backwards"},
      {0, "replace", "", Flag{&o.replace}, "r: as many blocks as there are are replaced, one by one, before the end"},
      {0, "verify", "", Flag{&o.verify}, "read every byte before a release"},
      {0, "list", "", Flag{&list}, "list the report's patterns, and stop"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"patterns",
                    "Plays one of the 28 allocation patterns of the BFM report (Finkler, IBM Research, 2004): "
                    "sizes in words, blocks filled, released in the pattern's order.",
                    "  patterns fifo:13\n"
                    "  patterns ma:1-250 --footprint 512M\n"
                    "  patterns r:1-63 --replace --threads 4\n"
                    "  patterns 25                         the same as ma:1-250\n"};
  const int rest = parse_options(argc, argv, table, usage);
  if (list) list_patterns();
  if (rest < argc) notation = argv[rest];
  parse_positionals(argc, argv, rest < argc ? rest + 1 : rest, {});
  o.pattern = patterns::read_pattern(notation);
  if (o.replace && o.pattern.sizes != patterns::Sizes::kRandom) {
    fatal(kExitUsage, "option --replace is for patterns r, not for ", notation);
  }
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("patterns", "1.0");
  const char* notation = "fifo:13";
  const patterns::Options o = parse(argc, argv, result, notation);
  kit::Session session(o.common, patterns::Workload::bytes_per_worker(o), true);
  patterns::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  Text headline;
  headline << "pattern " << notation << ", " << patterns::Workload::blocks_of(o, 0) << " blocks a thread, " << o.rounds
           << " rounds, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
