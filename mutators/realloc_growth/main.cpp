// SPDX-License-Identifier: Apache-2.0
// realloc_growth: options, run, result.
#include <string_view>

#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

constexpr std::int64_t kMostSize = std::int64_t{1} << 36;
constexpr std::string_view kModes = "vector|string|mixed";  // in the order of realloc_growth::Mode

realloc_growth::Options parse(int argc, char** argv, kit::Result& result) {
  realloc_growth::Options o;
  const char* mode = "mixed";
  const char* order = "together";
  const Option own[] = {
      {'m', "mode", "MODE", Word{&mode, kModes},
       "vector: the capacity is multiplied when it is used up; string: room for each piece appended; mixed: both"},
      {'b', "buffers", "N", Whole{&o.buffers, 1, 100'000'000}, "buffers that a thread holds"},
      {0, "rounds", "N", Whole{&o.rounds, 1, std::int64_t{1} << 40}, "times that a thread grows them all"},
      {0, "min-size", "BYTES", Whole{&o.min_size, 1, kMostSize, true}, "smallest size of a full-grown buffer"},
      {0, "max-size", "BYTES", Whole{&o.max_size, 1, kMostSize, true}, "largest size of a full-grown buffer"},
      {0, "growth", "PERCENT", Whole{&o.growth, 101, 1000}, "vectors: new capacity, of the old one"},
      {0, "first", "BYTES", Whole{&o.first, 1, kMostSize, true}, "vectors: first capacity"},
      {0, "piece", "BYTES", Whole{&o.piece, 1, kMostSize, true}, "strings: longest piece appended"},
      {0, "order", "ORDER", Word{&order, "together|apart"},
       "together: buffers grow in turn; apart: one after the other"},
      {0, "shrink", "", Flag{&o.shrink}, "vectors: give back what is too much at the end"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"realloc_growth",
                    "Buffers that grow by realloc until they have their size, as vectors and strings do.",
                    "  realloc_growth --mode vector --growth 150 --shrink\n"
                    "  realloc_growth --mode string --piece 16 --threads 4\n"
                    "  realloc_growth --max-size 16M --buffers 8 --order apart\n"};
  const int rest = parse_options(argc, argv, table, usage);
  parse_positionals(argc, argv, rest, {});
  check_range("size", o.min_size, o.max_size);
  o.mode = chosen<realloc_growth::Mode>(kModes, mode);
  o.apart = std::string_view(order) == "apart";
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("realloc_growth", "1.0");
  const realloc_growth::Options o = parse(argc, argv, result);
  kit::Session session(o.common, realloc_growth::Workload::bytes_per_worker(o), true);
  realloc_growth::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  result.metric("moved", "1", kit::Better::kLower, workload.moved());
  Text headline;
  headline << o.rounds << " rounds of " << o.buffers << " buffers that grow to " << o.min_size << " to " << o.max_size
           << " bytes, " << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
