// SPDX-License-Identifier: Apache-2.0
#include "result.hpp"

#include <unistd.h>

#include <cmath>
#include <string_view>

#include "../kit/result.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace heapyard::acdc {
namespace {

constexpr const char* kVersion = "1.0";

// Sums over the threads, and what follows from them. Times in milliseconds, memory in bytes.
struct Totals {
  double allocation_ms = 0, deallocation_ms = 0, access_ms = 0, running_ms = 0, wall_ms = 0;
  kit::Cycles allocation = 0, deallocation = 0, access = 0, running = 0;
  std::uint64_t objects = 0, drained = 0, bytes = 0, bytes_drained = 0, classes = 0, shared = 0, permanent = 0;
  std::uint64_t calls_allocated = 0, calls_freed = 0, accessed = 0, written = 0, checksum = 0, sections = 0;
  kit::LatencyHistogram malloc_latency{}, free_latency{};

  explicit Totals(const Run& run) {
    for (std::size_t i = 0; i < run.threads(); ++i) {
      const Counters& c = run.counters[i];
      allocation += c.allocation.net(run.read_cost);
      deallocation += c.deallocation.net(run.read_cost);
      access += c.access.net(run.read_cost);
      running += c.running;
      sections += c.allocation.sections + c.deallocation.sections + c.access.sections;
      objects += c.objects_allocated;
      drained += c.objects_drained;
      bytes += c.bytes_allocated.read();
      bytes_drained += c.bytes_drained;
      classes += c.classes;
      shared += c.classes_shared;
      permanent += c.classes_permanent;
      calls_allocated += c.calls_allocated;
      calls_freed += c.calls_freed;
      accessed += c.objects_accessed;
      written += c.objects_written;
      checksum ^= fold(i, c.checksum);
      if (c.malloc_latency) malloc_latency.merge(*c.malloc_latency);
      if (c.free_latency) free_latency.merge(*c.free_latency);
    }
    const double ms = 1e3 / run.cycles_per_second;
    allocation_ms = static_cast<double>(allocation) * ms;
    deallocation_ms = static_cast<double>(deallocation) * ms;
    access_ms = static_cast<double>(access) * ms;
    running_ms = static_cast<double>(running) * ms;
    wall_ms = static_cast<double>(run.wall_ns) * 1e-6;
  }
};

double mean(double sum, std::uint64_t count) { return count ? sum / static_cast<double>(count) : std::nan(""); }

void add_parameters(const Options& o, kit::Result& result) {
  constexpr const char* kPlacements[] = {"heap", "compact", "align"};
  result.parameter("mode", o.mode == Mode::kAcdc ? "acdc" : "false-sharing");
  result.parameter("threads", o.threads);
  result.parameter("objects", o.objects);
  result.parameter("min_size", o.min_size);
  result.parameter("max_size", o.max_size);
  result.parameter("min_liveness", o.min_liveness);
  result.parameter("max_liveness", o.max_liveness);
  result.parameter("delay", o.delay);
  result.parameter("quantum", o.quantum);
  result.parameter("duration", o.duration);
  result.parameter("drift", o.drift);
  result.parameter("list_ratio", o.list_ratio);
  result.parameter("access", o.access);
  result.parameter("write_ratio", o.write_ratio);
  result.parameter("write_iterations", o.write_iterations);
  result.parameter("shared", o.shared);
  result.parameter("shared_ratio", o.shared_ratio);
  result.parameter("receivers", o.receiver_ratio);
  result.parameter("permanent", o.permanent_ratio);
  result.parameter("seed", o.seed);
  result.parameter("repetition", o.repetition);
  result.parameter("placement", kPlacements[static_cast<int>(o.placement)]);
  result.parameter("access_time", o.access_time == AccessTime::kTick ? "tick" : "class");
  result.parameter("reads", o.reads == Reads::kLinks ? "links" : "payload");
  result.parameter("compat", o.compat);
  result.parameter("latency", o.latency);
  result.parameter("model", o.model ? o.model : "");
}

void add_metrics(const Run& run, const Totals& t, kit::Result& result) {
  const auto threads = static_cast<double>(run.threads());
  const MemorySamples& m = run.memory;
  const auto lower = [&](const char* name, const char* unit, double value) {
    result.metric(name, unit, kit::Better::kLower, value);
  };
  lower("allocation_time", "ms", t.allocation_ms);
  lower("allocation_time_per_thread", "ms", t.allocation_ms / threads);
  lower("deallocation_time", "ms", t.deallocation_ms);
  lower("deallocation_time_per_thread", "ms", t.deallocation_ms / threads);
  if (run.options.access) {
    lower("access_time", "ms", t.access_ms);
    lower("access_time_per_thread", "ms", t.access_ms / threads);
  }
  lower("wall_time", "ms", t.wall_ms);
  result.metric("throughput", "objects/s", kit::Better::kHigher, static_cast<double>(t.objects) / (t.wall_ms * 1e-3));
  if (m.counted) {
    lower("rss_average", "B", mean(m.rss_sum, m.counted));
    lower("rss_average_per_thread", "B", mean(m.rss_sum, m.counted) / threads);
    lower("live_average", "B", mean(m.live_sum, m.counted));
    lower("fragmentation", "1", mean(m.fragmentation_sum, m.counted));
  }
  lower("rss_peak", "B", static_cast<double>(m.rss_peak));
  lower("minor_faults", "1", static_cast<double>(run.faults.minor));
  lower("major_faults", "1", static_cast<double>(run.faults.major));
  if (run.options.latency) {
    result.latencies(kit::Call::kMalloc, t.malloc_latency, 1e9 / run.cycles_per_second);
    result.latencies(kit::Call::kFree, t.free_latency, 1e9 / run.cycles_per_second);
  }
}

void add_counts(const Run& run, const Totals& t, kit::Result& result) {
  result.count("objects", t.objects);
  result.count("objects_drained", t.drained);
  result.count("bytes", t.bytes);
  result.count("classes", t.classes);
  result.count("classes_shared", t.shared);
  result.count("classes_permanent", t.permanent);
  result.count("malloc_calls", t.calls_allocated);
  result.count("free_calls", t.calls_freed);
  result.count("objects_accessed", t.accessed);
  result.count("objects_written", t.written);
  result.count("memory_samples", run.memory.counted);
  result.count("timed_sections", t.sections);
}

// Objects of all threads by exponent of their size, or by liveness.
std::uint64_t of_exponent(const Run& run, std::size_t exponent) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < run.threads(); ++i) count += run.counters[i].by_size_exponent[exponent];
  return count;
}
std::uint64_t of_liveness(const Run& run, std::uint64_t liveness) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < run.threads(); ++i) count += run.counters[i].by_liveness[liveness];
  return count;
}

// What only ACDC has: histograms, times of each thread by what it did, memory by ticks.
void write_more(Json& json, const void* context) {
  const Run& run = *static_cast<const Run*>(context);
  json.field("cycles_per_second", run.cycles_per_second);
  json.key("histograms").open('{').key("objects_by_size_exponent").open('[');
  for (std::size_t e = 0; e < kSizeExponents; ++e) json.value(of_exponent(run, e));
  json.close(']').key("objects_by_liveness").open('[');
  for (std::uint64_t q = 0; q <= run.longest_liveness(); ++q) json.value(of_liveness(run, q));
  json.close(']').close('}');
  json.key("per_thread").open('[');
  const double ms = 1e3 / run.cycles_per_second;
  for (std::size_t i = 0; i < run.threads(); ++i) {
    const Counters& c = run.counters[i];
    json.open('{').field("allocation_ms", static_cast<double>(c.allocation.net(run.read_cost)) * ms);
    json.field("deallocation_ms", static_cast<double>(c.deallocation.net(run.read_cost)) * ms);
    json.field("access_ms", static_cast<double>(c.access.net(run.read_cost)) * ms)
        .field("running_ms", static_cast<double>(c.running) * ms);
    json.field("objects_allocated", c.objects_allocated).field("objects_freed", c.objects_freed).close('}');
  }
  json.close(']').key("series").open('{');
  const auto series = [&](const char* name, auto pick) {
    json.key(name).open('[');
    for (std::size_t i = 0; i < run.memory.kept.stored(); ++i) json.value(pick(run.memory.series[i]));
    json.close(']');
  };
  series("clock", [](const Sample& s) { return s.clock; });
  series("rss", [](const Sample& s) { return s.rss; });
  series("live", [](const Sample& s) { return s.live; });
  series("allocated", [](const Sample& s) { return s.allocated; });
  series("fragmentation", [&](const Sample& s) {
    const double heap = s.rss > run.memory.base_rss ? static_cast<double>(s.rss - run.memory.base_rss) : 0;
    return s.live ? heap / static_cast<double>(s.live) : std::nan("");
  });
  json.close('}');
}

// The published code's lines, field by field, so that existing scripts read them: cycles and kB.
void write_acdc(const Run& run, const Totals& t, Text& text) {
  const Options& o = run.options;
  const auto option = [&](const char* name, auto value) { text << "gopts->" << name << " = " << value << '\n'; };
  option("mode", static_cast<int>(o.mode));
  option("num_threads", o.threads);
  option("time_quantum", o.quantum);
  option("benchmark_duration", o.duration);
  option("seed", o.seed);
  text << "gopts->metadata_heap_sz = " << (run.bookkeeping_bytes() + (1 << 20) - 1) / (1 << 20) << " MB\n";
  option("min_liveness", o.min_liveness);
  option("max_liveness", o.max_liveness);
  option("max_time_gap", o.drift);
  option("deallocation_delay", o.delay);
  option("min_object_sc", exponent(static_cast<std::uint64_t>(o.min_size)));
  option("max_object_sc", top_exponent(static_cast<std::uint64_t>(o.max_size)));
  option("fixed_number_of_objects", o.objects);
  option("node_buffer_size", 0);
  option("class_buffer_size", 0);
  option("list_based_ratio", o.list_ratio);
  option("write_iterations", o.write_iterations);
  option("write_access_ratio", o.write_ratio);
  option("access_live_objects", static_cast<int>(o.access));
  option("shared_objects", static_cast<int>(o.shared));
  option("shared_objects_ratio", o.shared_ratio);
  option("receiving_threads_ratio", o.receiver_ratio);
  option("allocator_name", o.allocator_name);
  option("verbosity", o.verbosity);
  if (o.verbosity > 0) {
    for (std::size_t i = 0; i < run.memory.kept.stored(); ++i) {
      const Sample& s = run.memory.series[i];
      text << "MEMSTATS\t" << o.allocator_name << "\t0\t" << s.clock << '\t' << s.rss / 1024 << '\n';
    }
  }
  text << "Lifetime histogram:\n";
  for (std::uint64_t q = 0; q <= run.longest_liveness(); ++q) {
    text << "LT_HISTO:\t" << q << '\t' << of_liveness(run, q) << '\n';
  }
  text << "Size histogram:\n";
  for (unsigned e = 0; e <= top_exponent(static_cast<std::uint64_t>(o.max_size)); ++e) {
    text << "SZ_HISTO:\t" << e << '\t' << of_exponent(run, e) << '\n';
  }
  const auto share = [&](kit::Cycles part) {
    text << part << '\t';
    text.fixed(t.running ? 100.0 * static_cast<double>(part) / static_cast<double>(t.running) : 0, 1) << "% \t";
  };
  text << "Time is given in CPU cycles\nSpace is given in KB\n";
  text << "RESULTS\tallocator\tthreads\ttotal\t\tallocation\t\tdeallocation\t\taccess\t\n";
  text << "RUNTIME\t" << o.allocator_name << '\t' << o.threads << '\t';
  text << t.running << "\t100.0% \t";
  share(t.allocation);
  share(t.deallocation);
  share(t.access);
  text << "\nWALLCLOCK [ms]\t" << static_cast<std::uint64_t>(t.wall_ms) << '\n';
  text << "MEM-RESULTS\tallocator\tthreads\tVM_PEAK\tRSS_HWM\tRSS_AVG (after warmup)\n";
  text << "MEMORY\t" << o.allocator_name << '\t' << o.threads << "\t0\t" << run.memory.rss_peak / 1024 << '\t'
       << static_cast<std::uint64_t>(
              run.memory.counted ? run.memory.rss_sum / static_cast<double>(run.memory.counted) / 1024 : 0)
       << '\n';
}

}  // namespace

bool write_result(const Run& run) {
  static const Totals totals(run);  // two histograms: too large for a stack
  static kit::Result result("acdc", kVersion);
  const Options& o = run.options;
  add_parameters(o, result);
  add_metrics(run, totals, result);
  add_counts(run, totals, result);
  result.checksum(totals.checksum);
  result.bookkeeping(run.bookkeeping_bytes(), run.memory.base_rss);
  result.clock(static_cast<double>(run.read_cost) * 1e9 / run.cycles_per_second);
  result.extra(write_more, &run);

  const std::string_view format = o.format;
  Text headline, no_average, text;
  headline << totals.objects << " objects, " << totals.bytes / (1 << 20) << " MiB in " << totals.classes << " classes, "
           << Counted{o.threads, "thread"} << ", " << o.duration << " ticks, seed " << o.seed;
  if (!run.memory.counted) {
    no_average << "No memory average: the run has no ticks after the warm-up of twice the longest liveness ("
               << run.memory.warm_up << " ticks).\n";
    result.remark(no_average.view());
  }
  if (format == "table") result.write_table(text, headline.view());
  if (format == "acdc") write_acdc(run, totals, text);
  const bool written = text.write_to(STDOUT_FILENO);
  return result.write_json_to(o.json) && written;
}

}  // namespace heapyard::acdc
