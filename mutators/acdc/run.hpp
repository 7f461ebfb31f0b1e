// SPDX-License-Identifier: Apache-2.0
// State that all threads of one run share, and what the memory sampler saw.
#pragma once

#include <cstdint>

#include "../kit/arena.hpp"
#include "../kit/cycle_clock.hpp"
#include "../kit/process_memory.hpp"
#include "../kit/thinning.hpp"
#include "../kit/threads.hpp"
#include "counters.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "pool.hpp"
#include "size_class.hpp"

namespace heapyard::acdc {

// One look at memory, taken by thread 0 when its clock advances, before anything expires.
struct Sample {
  std::uint64_t clock;
  std::uint64_t rss;        // bytes of the process without its bookkeeping
  std::uint64_t live;       // bytes asked for and not freed yet, all threads
  std::uint64_t allocated;  // bytes asked for so far, all threads
};

// Averages over all samples after the warm-up of twice the longest liveness; the series keeps at most kMostSamples.
struct MemorySamples {
  static constexpr std::size_t kMostSamples = 4096;
  Sample* series = nullptr;
  kit::Thinning<kMostSamples> kept;
  std::uint64_t counted = 0;
  double rss_sum = 0, live_sum = 0, fragmentation_sum = 0;
  std::uint64_t rss_peak = 0;
  std::uint64_t warm_up = 0;   // ticks
  std::uint64_t base_rss = 0;  // without bookkeeping, before the first object

  void add(const Sample& sample);
};

struct Run {
  Options options;
  Model model;
  DescriptorLayout layout;
  Pool pool;
  kit::Threads team;
  Counters* counters = nullptr;        // one per thread
  kit::Arena* arenas = nullptr;        // one per thread
  Descriptors* descriptors = nullptr;  // one per thread; others give back to it
  kit::Arena common;
  kit::Arena model_memory;
  kit::ResidentMemory resident;
  kit::Cycles read_cost = 0;
  double cycles_per_second = 0;
  std::uint64_t wall_ns = 0;
  kit::PageFaults faults{};
  MemorySamples memory;
  void** objects = nullptr;  // false-sharing mode: [tick in ring][thread]

  std::size_t threads() const { return static_cast<std::size_t>(options.threads); }
  std::uint64_t longest_liveness() const { return static_cast<std::uint64_t>(options.max_liveness); }
  std::uint64_t bookkeeping_bytes() const;
  void sample_memory(std::uint64_t clock);
  void wait_for_all() { team.wait_for_all(); }

  // All threads leave together; thread 0 notes time, faults and memory at both ends of the measured phase.
  void start_together(std::size_t thread);
  void end_together(std::size_t thread);
};

// Reserves and populates bookkeeping as the options demand. O(threads x descriptors).
void prepare(Run& run);

// The body of one mutator thread, from the start barrier to its last deallocation.
void mutate(Run& run, std::size_t thread);
void mutate_false_sharing(Run& run, std::size_t thread);

// A failed allocation ends the run: what was reached so far goes to standard error, exit 4.
[[noreturn]] void out_of_memory(const Run& run, std::size_t thread, std::uint64_t size);

}  // namespace heapyard::acdc
