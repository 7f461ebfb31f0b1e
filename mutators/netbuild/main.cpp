// SPDX-License-Identifier: Apache-2.0
// netbuild: options, run, result.
#include "../kit/result.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "workload.hpp"

namespace {

using namespace heapyard;

netbuild::Options parse(int argc, char** argv, kit::Result& result) {
  netbuild::Options o;
  const Option own[] = {
      {'s', "shapes", "N", Whole{&o.shapes, 1, 100'000'000}, "rectangles of a task, dealt out over the layers"},
      {'l', "layers", "N", Whole{&o.layers, 1, netbuild::kMostLayers}, "layers; each connects to the next"},
      {'m', "tasks", "N", Whole{&o.tasks, 1, 1'000'000}, "tasks, all alike, dealt out over the threads"},
      {0, "spread", "N", Whole{&o.spread, 1, 1000},
       "width of the area over the root of the rectangles: the larger, the fewer overlap"},
  };
  const auto table = kit::with_common(o.common, own);
  const Usage usage{"netbuild",
                    "Finds which of many rectangles in the layers of a chip are connected: the application of the "
                    "BFM report (Finkler, IBM Research, 2004), about ten pairs of new and delete per rectangle.",
                    "  netbuild --shapes 200000\n"
                    "  netbuild --threads 8 --tasks 32\n"};
  const int rest = parse_options(argc, argv, table, usage);
  parse_positionals(argc, argv, rest, {});
  result.common_parameters(o.common);
  result.parameters(own);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  kit::Result result("netbuild", "1.0");
  const netbuild::Options o = parse(argc, argv, result);
  kit::Session session(o.common, netbuild::Workload::bytes_per_worker(o), true);
  netbuild::Workload workload(o, session);
  session.run(workload);

  session.report(result);
  const auto [nets, squares] = workload.answer();
  result.count("nets", nets);
  result.count("net_size_squares", squares);
  Text headline;
  headline << o.tasks << " tasks of " << o.shapes << " rectangles in " << o.layers << " layers, "
           << Counted{o.common.threads, "thread"};
  return result.write(o.common, headline.view()) ? 0 : kExitMachine;
}
