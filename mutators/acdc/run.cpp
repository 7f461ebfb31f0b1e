// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/fatal.hpp"
#include "base/simulation.hpp"
#include "law.hpp"

namespace heapyard::acdc {
namespace {

// Slack over the expected number of descriptors that is made resident beforehand; more becomes resident when needed.
constexpr double kExpectedSlack = 1.25;

struct ClassVolume {
  double mean_bytes;
  std::uint64_t least_bytes;
};

// Bytes of a class under the paper's laws: exact mean, and the least there can be. O(exponents).
ClassVolume volume(const Options& o) {
  const auto least_object = static_cast<std::uint64_t>(std::max<std::int64_t>(o.min_size, 8));
  const unsigned low = exponent(least_object), high = exponent(static_cast<std::uint64_t>(o.max_size)),
                 top = top_exponent(o.max_size);
  double liveness_factor = 0;
  for (std::int64_t q = o.min_liveness; q <= o.max_liveness; ++q) {
    const auto distance = static_cast<double>(o.max_liveness - q + 1);
    liveness_factor += distance * distance;
  }
  liveness_factor /= static_cast<double>(o.max_liveness - o.min_liveness + 1);
  double mean = 0;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (unsigned c = low; c <= high; ++c) {
    const std::uint64_t floor = std::max<std::uint64_t>(std::uint64_t{1} << c, least_object);
    const std::uint64_t ceiling =
        std::min<std::uint64_t>((std::uint64_t{2} << c) - 1, static_cast<std::uint64_t>(o.max_size));
    const double size = (static_cast<double>(floor) + static_cast<double>(ceiling)) / 2;
    const std::uint64_t factor = count_law(top, c, 1, 1);
    mean += size * (o.objects ? static_cast<double>(o.objects) : static_cast<double>(factor) * liveness_factor);
    least = std::min(least, floor * (o.objects ? static_cast<std::uint64_t>(o.objects) : factor));
  }
  return {mean / (high - low + 1), least};
}

ClassVolume volume(const Model& model, const Options& o) {
  const std::uint64_t count = o.objects ? static_cast<std::uint64_t>(o.objects) : 64;
  return {model.mean_size() * static_cast<double>(count), std::max<std::uint64_t>(model.smallest_size(), 8) * count};
}

// Everything that is not a thread's own: a few cache lines and one mailbox per thread.
std::size_t common_bytes(const Run& run) {
  const std::size_t line = kit::kCacheLine;
  const std::size_t per_thread = sizeof(Counters) + sizeof(kit::Arena) + sizeof(Descriptors) + sizeof(Mailbox) +
                                 8 * line + kit::round_up(run.longest_liveness() * sizeof(LifetimeClass), line) +
                                 sizeof(void*) * static_cast<std::size_t>(run.options.min_liveness + run.options.delay);
  return run.threads() * per_thread + kit::Threads::bytes(run.threads()) +
         MemorySamples::kMostSamples * sizeof(Sample) + 16 * kit::kPage;
}

}  // namespace

void MemorySamples::add(const Sample& sample) {
  rss_peak = std::max(rss_peak, sample.rss);
  if (sample.clock >= warm_up) {
    ++counted;
    rss_sum += static_cast<double>(sample.rss);
    live_sum += static_cast<double>(sample.live);
    const std::uint64_t heap = sample.rss > base_rss ? sample.rss - base_rss : 0;
    if (sample.live) fragmentation_sum += static_cast<double>(heap) / static_cast<double>(sample.live);
  }
  if (kept.keeps_next([this](std::size_t to, std::size_t from) { series[to] = series[from]; }))
    series[kept.stored() - 1] = sample;
}

std::uint64_t Run::bookkeeping_bytes() const {
  std::uint64_t bytes = common.resident_bytes() + model_memory.resident_bytes();
  for (std::size_t i = 0; i < threads(); ++i) bytes += arenas[i].resident_bytes();
  return bytes;
}

void Run::sample_memory(std::uint64_t clock) {
  std::uint64_t freed = 0, allocated = 0;
  // Freed first: live bytes are never under-counted into a negative number.
  for (std::size_t i = 0; i < threads(); ++i) freed += counters[i].bytes_freed.read();
  for (std::size_t i = 0; i < threads(); ++i) allocated += counters[i].bytes_allocated.read();
  const std::uint64_t rss = resident.bytes(), own = bookkeeping_bytes();
  memory.add({clock, rss > own ? rss - own : 0, allocated > freed ? allocated - freed : 0, allocated});
}

void prepare(Run& run) {
  const Options& o = run.options;
  const std::size_t n = run.threads();
  const bool empirical = o.model != nullptr;
  const std::int64_t receiver_ratio = empirical ? run.model.receiver_ratio() : (o.shared ? o.receiver_ratio : 0);
  run.layout = {n, 0};
  if (receiver_ratio > 0 && o.mode == Mode::kAcdc)
    run.layout.receivers = std::max<std::size_t>(1, (n * static_cast<std::size_t>(receiver_ratio) + 50) / 100);

  const ClassVolume bytes = empirical ? volume(run.model, o) : volume(o);
  const double quantum = static_cast<double>(o.quantum);
  const double classes_per_tick = quantum / bytes.mean_bytes + 1;
  const double most_per_tick = quantum / static_cast<double>(bytes.least_bytes) + 2;
  const double longest =
      static_cast<double>(o.max_liveness + o.delay + 2 + (run.layout.receivers ? 2 * o.drift + 2 : 0));
  const double mean_life = static_cast<double>(o.min_liveness + o.max_liveness) / 2 + static_cast<double>(o.delay + 2);
  const double permanent = o.permanent_ratio ? static_cast<double>(o.duration) : 0;
  const double descriptor = static_cast<double>(run.layout.bytes());
  const double fixed =
      static_cast<double>((o.max_liveness + o.delay + 2) * 64 + static_cast<std::int64_t>(n) * 64 + (1 << 20));

  const double reserve = o.mode == Mode::kFalseSharing ? fixed + 8.0 * static_cast<double>(o.min_liveness + o.delay)
                                                       : descriptor * most_per_tick * (longest + permanent) + fixed;
  if (reserve * static_cast<double>(n) > 0x1p46)
    fatal(kExitUsage,
          "these options need more bookkeeping than fits an address space; use fewer threads, a smaller quantum "
          "or larger objects");
  const double expected = o.mode == Mode::kFalseSharing
                              ? 0
                              : descriptor * classes_per_tick *
                                    (mean_life + permanent * static_cast<double>(o.permanent_ratio) / 100) *
                                    kExpectedSlack;

  run.common.reserve(common_bytes(run));
  run.team.prepare(run.common, n);
  run.counters = run.common.take<Counters>(n);
  run.arenas = run.common.take<kit::Arena>(n);
  run.descriptors = run.common.take<Descriptors>(n);
  run.memory.series = run.common.take<Sample>(MemorySamples::kMostSamples);
  run.memory.warm_up = 2 * run.longest_liveness();
  if (o.mode == Mode::kFalseSharing)
    run.objects = run.common.take<void*>(n * static_cast<std::size_t>(o.min_liveness + o.delay));
  else
    run.pool.start(run.common, n, run.longest_liveness());
  for (std::size_t i = 0; i < n; ++i) {
    kit::Arena& arena = *new (&run.arenas[i]) kit::Arena;
    arena.reserve(static_cast<std::size_t>(reserve));
    new (&run.descriptors[i]) Descriptors;
    Counters& counters = run.counters[i];
    counters.by_liveness = arena.take<std::uint64_t>(run.longest_liveness() + 1);
    if (o.latency) {
      counters.malloc_latency = arena.take<kit::LatencyHistogram>();
      counters.free_latency = arena.take<kit::LatencyHistogram>();
    }
    arena.populate(static_cast<std::size_t>(expected));
  }
}

void Run::start_together(std::size_t thread) {
  wait_for_all();
  if (thread == 0) {
    const std::uint64_t rss = resident.bytes(), own = bookkeeping_bytes();
    memory.base_rss = rss > own ? rss - own : 0;
    faults = kit::page_faults();
    mark_simulation(kSimulationBegin);
    wall_ns = monotonic_ns();
  }
  wait_for_all();
}

void Run::end_together(std::size_t thread) {
  wait_for_all();
  if (thread == 0) {
    wall_ns = monotonic_ns() - wall_ns;
    mark_simulation(kSimulationEnd);
    const kit::PageFaults end = kit::page_faults();
    faults = {end.minor - faults.minor, end.major - faults.major};
  }
}

void out_of_memory(const Run& run, std::size_t thread, std::uint64_t size) {
  std::uint64_t allocated = 0, freed = 0;
  for (std::size_t i = 0; i < run.threads(); ++i) {
    freed += run.counters[i].bytes_freed.read();
    allocated += run.counters[i].bytes_allocated.read();
  }
  fatal(kExitNoMemory, "malloc of ", size, " bytes failed in thread ", thread, " at tick ",
        run.counters[thread].clock.read(), " of ", run.options.duration, "; ", allocated,
        " bytes had been allocated and ", freed, " freed");
}

}  // namespace heapyard::acdc
