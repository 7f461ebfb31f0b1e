// SPDX-License-Identifier: Apache-2.0
// What a run found: collected as a record, shown as a table for people, written as JSON for the lab.
//
// The JSON object has the keys mutator, version, parameters, metrics (name, unit, direction, value), checksum, counts,
// bookkeeping_bytes, base_rss_bytes, counter_read_ns, per_thread and series; a mutator may add keys of its own. Names
// and texts are kept by reference and must outlive the record. No heap. O(1) per entry, write O(entries + samples).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/fatal.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "common_options.hpp"
#include "latency_histogram.hpp"
#include "worker.hpp"

namespace heapyard::kit {

enum class Better : std::uint8_t { kLower, kHigher };

class Result {
 public:
  Result(const char* mutator, const char* version) : mutator_(mutator), version_(version) {}

  void parameter(const char* name, std::int64_t value) { parameters_.add({name, value}); }
  void parameter(const char* name, bool value) { parameters_.add({name, value}); }
  void parameter(const char* name, const char* value) { parameters_.add({name, std::string_view(value)}); }
  void common_parameters(const CommonOptions& options);
  // Every option of a mutator's own table with the value it has now, under its name with '_' for '-'.
  void parameters(std::span<const Option> own);
  // A value that is not finite (an average over nothing) becomes null.
  void metric(const char* name, const char* unit, Better better, double value) {
    metrics_.add({name, unit, better, value});
  }
  // p50, p90, p99, p99.9, p99.99 and max of a call, in nanoseconds.
  void latencies(Call call, const LatencyHistogram& histogram, double ns_per_cycle);
  void count(const char* name, std::uint64_t value) { counts_.add({name, value}); }
  void checksum(std::uint64_t value) { checksum_ = value; }
  void bookkeeping(std::uint64_t bytes, std::uint64_t base_rss) {
    bookkeeping_ = bytes;
    base_rss_ = base_rss;
  }
  void clock(double read_ns) { counter_read_ns_ = read_ns; }
  void workers(std::span<const Worker> workers) { workers_ = workers; }
  void series(const char* name, std::span<const std::uint64_t> values) { series_.add({name, values}); }

  // What the table says besides numbers: a sentence with its end of line.
  void remark(std::string_view sentence) { remark_ = sentence; }
  // Appends keys to the JSON object: a mutator whose threads are no Workers tells of them itself.
  using Extra = void (*)(Json& json, const void* context);
  void extra(Extra write, const void* context) {
    extra_ = write;
    extra_context_ = context;
  }

  // The table as text, headed by `headline`.
  void write_table(Text& text, std::string_view headline) const;
  // JSON to the file, or nothing where `path` is null. False when it did not take it.
  bool write_json_to(const char* path) const;
  // Table to standard output unless the options forbid it; JSON where they say. False when a file or standard output
  // did not take it.
  bool write(const CommonOptions& options, std::string_view headline) const;

 private:
  // A list that needs no heap; what a mutator reports is bounded by its source.
  template <class T, std::size_t kMost>
  class List {
   public:
    void add(const T& item) {
      if (size_ == kMost) fatal(kExitMachine, "internal error: more than ", kMost, " entries in a result");
      items_[size_++] = item;
    }
    const T* begin() const { return items_.data(); }
    const T* end() const { return items_.data() + size_; }

   private:
    std::array<T, kMost> items_{};
    std::size_t size_ = 0;
  };

  struct Parameter {
    const char* name;
    std::variant<std::int64_t, bool, std::string_view> value;
  };
  struct Metric {
    const char* name;
    const char* unit;
    Better better;
    double value;
  };
  struct Count {
    const char* name;
    std::uint64_t value;
  };
  struct Series {
    const char* name;
    std::span<const std::uint64_t> values;
  };

  void write_json(Text& text) const;

  const char* mutator_;
  const char* version_;
  List<Parameter, 48> parameters_;
  List<Metric, 96> metrics_;
  List<Count, 48> counts_;
  List<Series, 16> series_;
  std::uint64_t checksum_ = 0, bookkeeping_ = 0, base_rss_ = 0;
  double counter_read_ns_ = 0;
  std::span<const Worker> workers_;
  std::string_view remark_;
  Extra extra_ = nullptr;
  const void* extra_context_ = nullptr;
};

}  // namespace heapyard::kit
