// SPDX-License-Identifier: Apache-2.0
#include "result.hpp"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/fatal.hpp"
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

struct Metric {
  const char* name;
  const char* unit;
  const char* direction;
  double value;
};

struct Quantile {
  const char* name;
  double share;
};
constexpr Quantile kQuantiles[] = {{"p50", 0.5},     {"p90", 0.9},       {"p99", 0.99},
                                   {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1.0}};

// Calls take(metric) for every response of the run; one list serves the table and the JSON.
template <class Take>
void each_metric(const Run& run, const Totals& t, Take take) {
  const auto threads = static_cast<double>(run.threads());
  const MemorySamples& m = run.memory;
  take(Metric{"allocation_time", "ms", "lower", t.allocation_ms});
  take(Metric{"allocation_time_per_thread", "ms", "lower", t.allocation_ms / threads});
  take(Metric{"deallocation_time", "ms", "lower", t.deallocation_ms});
  take(Metric{"deallocation_time_per_thread", "ms", "lower", t.deallocation_ms / threads});
  if (run.options.access) {
    take(Metric{"access_time", "ms", "lower", t.access_ms});
    take(Metric{"access_time_per_thread", "ms", "lower", t.access_ms / threads});
  }
  take(Metric{"wall_time", "ms", "lower", t.wall_ms});
  take(Metric{"throughput", "objects/s", "higher", static_cast<double>(t.objects) / (t.wall_ms * 1e-3)});
  if (m.counted) {
    take(Metric{"rss_average", "B", "lower", mean(m.rss_sum, m.counted)});
    take(Metric{"rss_average_per_thread", "B", "lower", mean(m.rss_sum, m.counted) / threads});
    take(Metric{"live_average", "B", "lower", mean(m.live_sum, m.counted)});
    take(Metric{"fragmentation", "1", "lower", mean(m.fragmentation_sum, m.counted)});
  }
  take(Metric{"rss_peak", "B", "lower", static_cast<double>(m.rss_peak)});
  take(Metric{"minor_faults", "1", "lower", static_cast<double>(run.faults.minor)});
  take(Metric{"major_faults", "1", "lower", static_cast<double>(run.faults.major)});
  if (run.options.latency) {
    const double ns = 1e9 / run.cycles_per_second;
    static const char* const kMalloc[] = {"malloc_p50",   "malloc_p90",    "malloc_p99",
                                          "malloc_p99.9", "malloc_p99.99", "malloc_max"};
    static const char* const kFree[] = {"free_p50", "free_p90", "free_p99", "free_p99.9", "free_p99.99", "free_max"};
    for (std::size_t i = 0; i < std::size(kQuantiles); ++i) {
      take(Metric{kMalloc[i], "ns", "lower", static_cast<double>(t.malloc_latency.quantile(kQuantiles[i].share)) * ns});
      take(Metric{kFree[i], "ns", "lower", static_cast<double>(t.free_latency.quantile(kQuantiles[i].share)) * ns});
    }
  }
}

void parameters(const Run& run, Json& json) {
  const Options& o = run.options;
  constexpr const char* kPlacements[] = {"heap", "compact", "align"};
  json.field("mode", o.mode == Mode::kAcdc ? "acdc" : "false-sharing")
      .field("threads", o.threads)
      .field("objects", o.objects);
  json.field("min_size", o.min_size)
      .field("max_size", o.max_size)
      .field("min_liveness", o.min_liveness)
      .field("max_liveness", o.max_liveness);
  json.field("delay", o.delay).field("quantum", o.quantum).field("duration", o.duration).field("drift", o.drift);
  json.field("list_ratio", o.list_ratio).field("access", o.access).field("write_ratio", o.write_ratio);
  json.field("write_iterations", o.write_iterations).field("shared", o.shared).field("shared_ratio", o.shared_ratio);
  json.field("receivers", o.receiver_ratio)
      .field("permanent", o.permanent_ratio)
      .field("seed", o.seed)
      .field("repetition", o.repetition);
  json.field("placement", kPlacements[static_cast<int>(o.placement)])
      .field("access_time", o.access_time == AccessTime::kTick ? "tick" : "class");
  json.field("reads", o.reads == Reads::kLinks ? "links" : "payload")
      .field("compat", o.compat)
      .field("latency", o.latency);
  json.field("model", o.model ? std::string_view(o.model) : std::string_view());
}

void write_json(const Run& run, const Totals& t, Text& text) {
  Json json(text);
  json.open('{').field("mutator", "acdc").field("version", kVersion);
  json.key("parameters").open('{');
  parameters(run, json);
  json.close('}').key("metrics").open('[');
  each_metric(run, t, [&](const Metric& m) {
    json.open('{')
        .field("name", m.name)
        .field("unit", m.unit)
        .field("direction", m.direction)
        .field("value", m.value)
        .close('}');
  });
  json.close(']');
  // As text: 64 bits do not survive readers that keep numbers as doubles.
  char checksum[24];
  const auto end = std::to_chars(checksum, checksum + sizeof checksum, t.checksum, 16);
  json.field("checksum", std::string_view(checksum, static_cast<std::size_t>(end.ptr - checksum)));
  json.key("counts").open('{').field("objects", t.objects).field("objects_drained", t.drained).field("bytes", t.bytes);
  json.field("classes", t.classes).field("classes_shared", t.shared).field("classes_permanent", t.permanent);
  json.field("malloc_calls", t.calls_allocated)
      .field("free_calls", t.calls_freed)
      .field("objects_accessed", t.accessed);
  json.field("objects_written", t.written).field("memory_samples", run.memory.counted);
  json.field("timed_sections", t.sections).close('}');
  json.field("bookkeeping_bytes", run.bookkeeping_bytes()).field("base_rss_bytes", run.memory.base_rss);
  json.field("cycles_per_second", run.cycles_per_second);
  json.field("counter_read_ns", static_cast<double>(run.read_cost) * 1e9 / run.cycles_per_second);
  json.key("histograms").open('{').key("objects_by_size_exponent").open('[');
  for (std::size_t e = 0; e < kSizeExponents; ++e) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < run.threads(); ++i) count += run.counters[i].by_size_exponent[e];
    json.value(count);
  }
  json.close(']').key("objects_by_liveness").open('[');
  for (std::uint64_t q = 0; q <= run.longest_liveness(); ++q) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < run.threads(); ++i) count += run.counters[i].by_liveness[q];
    json.value(count);
  }
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
    for (std::uint64_t i = 0; i < run.memory.stored; ++i) json.value(pick(run.memory.series[i]));
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
  json.close('}').close('}');
  text << '\n';
}

void write_table(const Run& run, const Totals& t, Text& text) {
  const Options& o = run.options;
  text << "acdc: " << t.objects << " objects, " << t.bytes / (1 << 20) << " MiB in " << t.classes << " classes, "
       << o.threads << (o.threads == 1 ? " thread, " : " threads, ") << o.duration << " ticks, seed " << o.seed
       << "\n\n";
  text << "  response";
  text.pad_to(34) << "value";
  text.pad_to(50) << "unit";
  text.pad_to(62) << "better\n";
  each_metric(run, t, [&](const Metric& m) {
    text << "  " << m.name;
    text.pad_to(34);
    const bool bytes = std::string_view(m.unit) == "B";
    text.fixed(bytes ? m.value / (1 << 20) : m.value, bytes || m.value < 1e4 ? 3 : 0);
    text.pad_to(50) << (bytes ? "MiB" : m.unit);
    text.pad_to(62) << m.direction << '\n';
  });
  if (!run.memory.counted)
    text << "\nNo memory average: the run has no ticks after the warm-up of twice the longest liveness ("
         << run.memory.warm_up << " ticks).\n";
  text << "\nMemory is without the mutator's own bookkeeping (" << run.bookkeeping_bytes() / 1024
       << " KiB). Sequence checksum ";
  char checksum[24];
  const auto end = std::to_chars(checksum, checksum + sizeof checksum, t.checksum, 16);
  text << std::string_view(checksum, static_cast<std::size_t>(end.ptr - checksum)) << ".\n";
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
    for (std::uint64_t i = 0; i < run.memory.stored; ++i) {
      const Sample& s = run.memory.series[i];
      text << "MEMSTATS\t" << o.allocator_name << "\t0\t" << s.clock << '\t' << s.rss / 1024 << '\n';
    }
  }
  text << "Lifetime histogram:\n";
  for (std::uint64_t q = 0; q <= run.longest_liveness(); ++q) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < run.threads(); ++i) count += run.counters[i].by_liveness[q];
    text << "LT_HISTO:\t" << q << '\t' << count << '\n';
  }
  text << "Size histogram:\n";
  for (unsigned e = 0; e <= top_exponent(static_cast<std::uint64_t>(o.max_size)); ++e) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < run.threads(); ++i) count += run.counters[i].by_size_exponent[e];
    text << "SZ_HISTO:\t" << e << '\t' << count << '\n';
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
  const std::string_view format = run.options.format;
  Text text;
  if (format == "table") write_table(run, totals, text);
  if (format == "acdc") write_acdc(run, totals, text);
  bool written = text.write_to(STDOUT_FILENO);
  if (run.options.json) {
    Text json;
    write_json(run, totals, json);
    written = write_file(run.options.json, json) && written;
  }
  return written;
}

}  // namespace heapyard::acdc
