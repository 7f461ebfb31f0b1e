// large_blocks: options, run, result.
#include <string_view>

#include "../kit/options.hpp"
#include "../kit/result.hpp"
#include "../kit/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;
using kit::Whole;
using kit::Word;

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

large_blocks::Options parse(int argc, char** argv, kit::Result& result) {
  large_blocks::Options o;
  const char* law = "log";
  const char* write = "pages";
  const kit::Option own[] = {
      {0, "slots", "N", Whole{&o.slots, 1, 1 << 20}, "blocks that a thread holds"},
      {0, "steps", "N", Whole{&o.steps, 1, std::int64_t{1} << 40}, "blocks that a thread allocates"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "largest size"},
      {0, "sizes", "LAW", Word{&law, "log|even"}, "log: each power of two is as likely; even: each size"},
      {0, "write", "WHAT", Word{&write, "ends|pages|all"},
       "which bytes of a block are written: the first and last; one "
       "of each page; all"},
  };
  const auto table = kit::with_common(o.common, own);
  const kit::Usage usage{
      "large_blocks",
      "Blocks from a kilobyte to many megabytes that replace each other in a few slots. After malloc-large of "
      "mimalloc-bench.",
      "  large_blocks --threads 4 --steps 500\n"
      "  large_blocks --sizes even --min-size 5M --max-size 25M --write all\n"
      "                                    what malloc-large does\n"};
  const int rest = kit::parse_options(argc, argv, table, usage);
  kit::parse_positionals(argc, argv, rest, {});
  if (o.min_size > o.max_size)
    kit::fatal(kit::kExitUsage, "the minimum size ", o.min_size, " is larger than the maximum size ", o.max_size);
  o.law = std::string_view(law) == "even" ? large_blocks::Law::kEven : large_blocks::Law::kLog;
  const std::string_view which = write;
  o.write = which == "all"     ? large_blocks::Write::kAll
            : which == "pages" ? large_blocks::Write::kPages
                               : large_blocks::Write::kEnds;
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
  kit::Text headline;
  headline << o.steps << " blocks of " << o.min_size << " to " << o.max_size << " bytes in " << o.slots << " slots, "
           << o.common.threads << (o.common.threads == 1 ? " thread" : " threads");
  return result.write(o.common, headline.view()) ? 0 : kit::kExitMachine;
}
