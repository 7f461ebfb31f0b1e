// SPDX-License-Identifier: Apache-2.0
// One run of a mutator: its threads, its phases, its clocks, and what every mutator but acdc measures.
//
// A workload is any class with three templates over Operations<Observer>, called by each worker:
//   before(worker, operations)    sets up; on the heap but not measured
//   measured(worker, operations)  the work; fixed by the options, never by time
//   after(worker, operations)     gives back what is left; not measured
// Threads, stacks and tables exist before the measured phase; a barrier lets all workers go at once. The wall time is
// from the first worker's start to the last one's end. Worker 0 is the main thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "arena.hpp"
#include "common_options.hpp"
#include "cycle_clock.hpp"
#include "memory_sampler.hpp"
#include "operations.hpp"
#include "threads.hpp"
#include "worker.hpp"

namespace heapyard::kit {

class Result;

class Session {
 public:
  // Makes the workers; each has an arena with address space for `bytes_per_worker`. `tracks_live`: the workload calls
  // hold() and drop(). Take the workload's tables from the arenas before run(). O(threads).
  Session(const CommonOptions& options, std::size_t bytes_per_worker, bool tracks_live = false);

  // Runs the workload under the observer that the options ask for. Ends the program with exit 1 if it did not give
  // back everything it took.
  template <class Workload>
  void run(Workload& workload) {
    if (options_.log)
      run_observed<LogObserver>(workload);
    else if (options_.latency)
      run_observed<LatencyObserver>(workload);
    else
      run_observed<NoObserver>(workload);
    finish();
  }

  // Adds what every mutator reports: metrics, counts, checksum, per-thread figures, series. When the measured work was
  // bounded by time, `fixed_work` is false and the checksum covers what was done before it alone.
  void report(Result& result, bool fixed_work = true) const;

  // A barrier of all workers within the measured phase.
  void wait_for_all() { threads_.wait_for_all(); }

  const CommonOptions& options() const { return options_; }
  std::size_t threads() const { return static_cast<std::size_t>(options_.threads); }
  Worker& worker(std::size_t index) { return workers_[index]; }
  const Worker& worker(std::size_t index) const { return workers_[index]; }
  Tally total(Phase phase) const;
  double wall_seconds() const;
  double thread_seconds() const;  // of the measured phase, summed over the workers
  std::uint64_t bookkeeping_bytes() const;
  const MemorySampler& memory() const { return memory_; }

 private:
  // A workload whose type is known to `body` alone.
  struct Untyped {
    Session* session;
    void* workload;
    void (*body)(Session&, void* workload, Worker&);
  };

  template <class Observer, class Workload>
  void run_observed(Workload& workload) {
    run_threads(&workload, [](Session& session, void* untyped, Worker& worker) {
      auto& typed = *static_cast<Workload*>(untyped);
      {
        Operations<OutsideMeasurement<Observer>> operations(worker, Phase::kBefore);
        typed.before(worker, operations);
      }
      session.start_together(worker);
      {
        Operations<Observer> operations(worker, Phase::kMeasured);
        typed.measured(worker, operations);
      }
      session.end_together(worker);
      Operations<OutsideMeasurement<Observer>> operations(worker, Phase::kAfter);
      typed.after(worker, operations);
    });
  }

  void run_threads(void* workload, void (*body)(Session&, void*, Worker&));
  void start_together(Worker& worker);
  void end_together(Worker& worker);
  void finish();

  CommonOptions options_;
  Arena common_;
  Worker* workers_ = nullptr;
  Threads threads_;
  MemorySampler memory_;
  Cycles read_cost_ = 0;
  double cycles_per_second_ = 0;
  std::uint64_t cpu_ns_ = 0;
  PageFaults faults_{};
};

}  // namespace heapyard::kit
