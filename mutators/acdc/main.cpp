// SPDX-License-Identifier: Apache-2.0
// acdc: the universal mutator. Set-up, threads, result.
#include "base/fatal.hpp"
#include "options.hpp"
#include "result.hpp"
#include "run.hpp"

namespace {

using namespace heapyard;

void work(void* context, std::size_t thread) {
  auto& run = *static_cast<acdc::Run*>(context);
  if (run.options.mode == acdc::Mode::kFalseSharing)
    acdc::mutate_false_sharing(run, thread);
  else
    acdc::mutate(run, thread);
}

}  // namespace

int main(int argc, char** argv) {
  static acdc::Run run;
  run.options = acdc::parse(argc, argv);
  if (run.options.model) {
    run.model = acdc::read_model(run.options.model, run.model_memory);
    run.options.min_liveness = 1;
    run.options.max_liveness = static_cast<std::int64_t>(run.model.longest_liveness());
    run.options.shared = run.model.receiver_ratio() > 0;
  }
  run.resident.open();
  run.read_cost = kit::read_cost();
  acdc::prepare(run);
  const kit::CycleRate rate;
  run.team.run(work, &run);
  run.cycles_per_second = rate.per_second();

  std::uint64_t allocated = 0, freed = 0;
  for (std::size_t i = 0; i < run.threads(); ++i) {
    allocated += run.counters[i].objects_allocated;
    freed += run.counters[i].objects_freed;
  }
  if (allocated != freed)
    fatal(kExitMachine, "internal error: ", allocated, " objects allocated but ", freed, " freed");
  return acdc::write_result(run) ? 0 : kExitMachine;
}
