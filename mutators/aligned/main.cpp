// SPDX-License-Identifier: Apache-2.0
// aligned: options, run, result.
#include <bit>
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostSize = 1 << 30;
constexpr std::int64_t kLeastAlignment = sizeof(void*);  // what posix_memalign asks for
constexpr std::int64_t kMostAlignment = 1 << 24;
constexpr std::string_view kCalls = "posix_memalign|aligned_alloc|mixed";  // in the order of aligned::How

aligned::Options parse(int argc, char** argv, kit::Result& result) {
  aligned::Options o;
  const char* call = "mixed";
  const Option own[] = {
      {'c', "call", "CALL", Word{&call, kCalls}, "function that is asked; mixed: either"},
      {0, "slots", "N", Whole{&o.slots, 1, 100'000'000}, "objects that a thread holds"},
      {0, "steps", "N", Whole{&o.steps, 1, std::int64_t{1} << 40}, "objects that a thread replaces"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "smallest size"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true},
       "largest size; aligned_alloc rounds sizes up to the alignment"},
      {0, "min-alignment", "BYTES", Whole{&o.min_alignment, kLeastAlignment, kMostAlignment, true},
       "smallest alignment, a power of two"},
      {0, "max-alignment", "BYTES", Whole{&o.max_alignment, kLeastAlignment, kMostAlignment, true},
       "largest alignment, a power of two"},
      {0, "plain", "PERCENT", Whole{&o.plain, 0, 100}, "share of the objects that come from malloc"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"aligned", "Objects of many sizes and alignments that replace each other at random.",
                    "  aligned --threads 4\n"
                    "  aligned --call aligned_alloc --min-alignment 64 --max-alignment 64 --plain 0\n"
                    "  aligned --min-alignment 4K --max-alignment 64K --max-size 64K\n"};
  const int rest = parse_options(argc, argv, table, usage);
  parse_positionals(argc, argv, rest, {});
  check_range("size", o.min_size, o.max_size);
  for (const std::int64_t alignment : {o.min_alignment, o.max_alignment})
    if (!std::has_single_bit(static_cast<std::uint64_t>(alignment)))
      fatal(kExitUsage, "an alignment must be a power of two, not ", alignment);
  check_range("alignment", o.min_alignment, o.max_alignment);
  o.how = chosen<aligned::How>(kCalls, call);
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("aligned", "1.0");
  const aligned::Options o = parse(argc, argv, result);
  kit::Session session(o.common, aligned::Workload::bytes_per_worker(o), true);
  aligned::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  result.metric("blowup", "1", kit::Better::kLower, session.memory().blowup());
  result.count("misaligned", workload.misaligned());
  if (workload.misaligned()) complain(workload.misaligned(), " blocks do not lie on the boundary asked for");
  Text headline;
  headline << o.slots << " objects of " << o.min_size << " to " << o.max_size << " bytes on boundaries of "
           << o.min_alignment << " to " << o.max_alignment << ", " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
