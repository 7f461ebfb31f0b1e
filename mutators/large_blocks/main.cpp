// SPDX-License-Identifier: Apache-2.0
// large_blocks: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr std::string_view kLaws = "log|even";          // in the order of large_blocks::Law
constexpr std::string_view kWrites = "ends|pages|all";  // in the order of large_blocks::Write

large_blocks::Options parse(int argc, char** argv, kit::Result& result) {
  large_blocks::Options o;
  const char* law = "log";
  const char* write = "pages";
  const Option own[] = {
      {0, "slots", "N", Whole{&o.slots, 1, 1 << 20}, "blocks that a thread holds"},
      {0, "steps", "N", Whole{&o.steps, 1, std::int64_t{1} << 40}, "blocks that a thread allocates"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "largest size"},
      {0, "sizes", "LAW", Word{&law, kLaws}, "log: each power of two is as likely; even: each size"},
      {0, "write", "WHAT", Word{&write, kWrites}, "what is written of a block: its ends; a byte of each page; all"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{
      "large_blocks",
      "Blocks from a kilobyte to many megabytes that replace each other in a few slots. After malloc-large of "
      "mimalloc-bench.",
      "  large_blocks --threads 4 --steps 500\n"
      "  large_blocks --sizes even --min-size 5M --max-size 25M --write all\n"
      "                                    what malloc-large does\n"};
  const int rest = parse_options(argc, argv, table, usage);
  parse_positionals(argc, argv, rest, {});
  check_range("size", o.min_size, o.max_size);
  o.law = chosen<large_blocks::Law>(kLaws, law);
  o.write = chosen<large_blocks::Write>(kWrites, write);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("large_blocks", "1.0");
  const large_blocks::Options o = parse(argc, argv, result);
  kit::Session session(o.common, large_blocks::Workload::bytes_per_worker(o), true);
  large_blocks::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  result.metric("blowup", "1", kit::Better::kLower, session.memory().blowup());
  Text headline;
  headline << o.steps << " blocks of " << o.min_size << " to " << o.max_size << " bytes in " << o.slots << " slots, "
           << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
