// SPDX-License-Identifier: Apache-2.0
#include "result.hpp"

#include <unistd.h>

#include <charconv>
#include <cstring>

#include "base/fatal.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace heapyard::kit {
namespace {

// As text: 64 bits do not survive readers that keep numbers as doubles.
struct Hexadecimal {
  char digits[17];
  std::size_t length;
  explicit Hexadecimal(std::uint64_t value)
      : length(static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, value, 16).ptr - digits)) {}
  std::string_view view() const { return {digits, length}; }
};

const char* word(Better better) { return better == Better::kHigher ? "higher" : "lower"; }

}  // namespace

void Result::common_parameters(const CommonOptions& options) {
  parameter("threads", options.threads);
  parameter("seed", options.seed);
  parameter("latency", options.latency);
}

void Result::parameters(std::span<const Option> own) {
  for (const Option& option : own) {
    if (const auto* whole = std::get_if<Whole>(&option.kind)) parameter(option.name, *whole->target);
    if (const auto* flag = std::get_if<Flag>(&option.kind)) parameter(option.name, *flag->target);
    if (const auto* text = std::get_if<Word>(&option.kind)) parameter(option.name, *text->target ? *text->target : "");
  }
}

void Result::latencies(Call call, const LatencyHistogram& histogram, double ns_per_cycle) {
  struct Quantile {
    double share;
    const char* names[kCalls];
  };
  static constexpr Quantile kQuantiles[] = {
      {0.5, {"malloc_p50", "calloc_p50", "aligned_p50", "realloc_p50", "free_p50"}},
      {0.9, {"malloc_p90", "calloc_p90", "aligned_p90", "realloc_p90", "free_p90"}},
      {0.99, {"malloc_p99", "calloc_p99", "aligned_p99", "realloc_p99", "free_p99"}},
      {0.999, {"malloc_p99.9", "calloc_p99.9", "aligned_p99.9", "realloc_p99.9", "free_p99.9"}},
      {0.9999, {"malloc_p99.99", "calloc_p99.99", "aligned_p99.99", "realloc_p99.99", "free_p99.99"}},
      {1.0, {"malloc_max", "calloc_max", "aligned_max", "realloc_max", "free_max"}},
  };
  for (const Quantile& q : kQuantiles)
    metric(q.names[static_cast<std::size_t>(call)], "ns", Better::kLower,
           static_cast<double>(histogram.quantile(q.share)) * ns_per_cycle);
}

void Result::write_json(Text& text) const {
  Json json(text);
  json.open('{').field("mutator", mutator_).field("version", version_);
  json.key("parameters").open('{');
  for (const Parameter& p : parameters_) {
    Text name;
    for (const char c : std::string_view(p.name)) name << (c == '-' ? '_' : c);
    std::visit([&](auto value) { json.field(name.view(), value); }, p.value);
  }
  json.close('}').key("metrics").open('[');
  for (const Metric& m : metrics_) {
    json.open('{').field("name", m.name).field("unit", m.unit);
    json.field("direction", word(m.better)).field("value", m.value).close('}');
  }
  json.close(']').field("checksum", Hexadecimal(checksum_).view()).key("counts").open('{');
  for (const Count& c : counts_) json.field(c.name, c.value);
  json.close('}').field("bookkeeping_bytes", bookkeeping_).field("base_rss_bytes", base_rss_);
  json.field("counter_read_ns", counter_read_ns_);
  if (!workers_.empty()) {
    json.key("per_thread").open('[');
    for (const Worker& w : workers_) {
      const Tally& tally = w.tally[static_cast<std::size_t>(Phase::kMeasured)];
      json.open('{').field("allocations", tally.allocations).field("releases", tally.releases);
      json.field("running_ms", static_cast<double>(w.ended_ns - w.started_ns) * 1e-6).close('}');
    }
    json.close(']').key("series").open('{');
    for (const Series& s : series_) {
      json.key(s.name).open('[');
      for (const std::uint64_t value : s.values) json.value(value);
      json.close(']');
    }
    json.close('}');
  }
  if (extra_ != nullptr) extra_(json, extra_context_);
  json.close('}');
  text << '\n';
}

void Result::write_table(Text& text, std::string_view headline) const {
  text << mutator_ << ": " << headline << "\n\n";
  text << "  response";
  text.pad_to(34) << "value";
  text.pad_to(50) << "unit";
  text.pad_to(64) << "better\n";
  for (const Metric& m : metrics_) {
    text << "  " << m.name;
    text.pad_to(34);
    const bool bytes = std::string_view(m.unit) == "B";
    text.fixed(bytes ? m.value / (1 << 20) : m.value, bytes || m.value < 1e4 ? 3 : 0);
    text.pad_to(50) << (bytes ? "MiB" : m.unit);
    text.pad_to(64) << word(m.better) << '\n';
  }
  if (!remark_.empty()) text << '\n' << remark_;
  text << "\nMemory is without the mutator's own bookkeeping (" << bookkeeping_ / 1024 << " KiB). Sequence checksum "
       << Hexadecimal(checksum_).view() << ".\n";
}

bool Result::write_json_to(const char* path) const {
  if (path == nullptr) return true;
  Text json;
  write_json(json);
  return write_file(path, json);
}

bool Result::write(const CommonOptions& options, std::string_view headline) const {
  Text table;
  if (std::string_view(options.format) == "table") write_table(table, headline);
  const bool written = table.write_to(STDOUT_FILENO);
  return write_json_to(options.json) && written;
}

}  // namespace heapyard::kit
