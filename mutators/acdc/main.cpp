// SPDX-License-Identifier: Apache-2.0
// acdc: the universal mutator. Set-up, threads, result.
#include <pthread.h>

#include "base/fatal.hpp"
#include "options.hpp"
#include "result.hpp"
#include "run.hpp"

namespace {

using namespace heapyard;

struct Start {
  acdc::Run* run;
  std::size_t thread;
};

void* start_thread(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  if (start.run->options.mode == acdc::Mode::kFalseSharing)
    acdc::mutate_false_sharing(*start.run, start.thread);
  else
    acdc::mutate(*start.run, start.thread);
  return nullptr;
}

constexpr std::size_t kStack = 1 << 20;  // the recursion is as deep as a tree; malloc's own needs are the larger part

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
  const std::size_t n = run.threads();
  if (pthread_barrier_init(&run.barrier, nullptr, static_cast<unsigned>(n)) != 0)
    fatal(kExitMachine, "cannot make a barrier");

  const kit::CycleRate rate;
  auto* const starts = run.common.take<Start>(n);
  auto* const threads = run.common.take<pthread_t>(n);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  for (std::size_t i = 0; i < n; ++i) {
    starts[i] = {&run, i};
    // Thread 0 is the main thread, as in a program that has no other.
    if (i > 0 && pthread_create(&threads[i], &attributes, start_thread, &starts[i]) != 0)
      fatal(kExitMachine, "cannot start thread ", i, " of ", n);
  }
  start_thread(&starts[0]);
  for (std::size_t i = 1; i < n; ++i) pthread_join(threads[i], nullptr);
  run.cycles_per_second = rate.per_second();

  std::uint64_t allocated = 0, freed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    allocated += run.counters[i].objects_allocated;
    freed += run.counters[i].objects_freed;
  }
  if (allocated != freed)
    fatal(kExitMachine, "internal error: ", allocated, " objects allocated but ", freed, " freed");
  return acdc::write_result(run) ? 0 : kExitMachine;
}
