// SPDX-License-Identifier: Apache-2.0
// The options that all mutators but acdc share, so that one command line fits the family.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/options.hpp"

namespace heapyard::kit {

inline constexpr std::int64_t kMostThreads = 1024;

struct CommonOptions {
  std::int64_t threads = 1;
  std::int64_t seed = 1;
  std::int64_t latency = 0;        // time every n-th operation on its own; 0: none
  std::int64_t sample_period = 2;  // milliseconds between two looks at memory
  const char* log = nullptr;       // file for the operations, one line each
  const char* format = "table";    // "none": print nothing for people
  const char* json = nullptr;      // file for the result, "-" for standard output
};

inline constexpr std::size_t kCommonOptions = 7;

// The mutator's own options followed by the common ones; pass it to parse_options. `most_threads` is the family's
// limit unless the workload has a smaller one.
template <std::size_t kOwn>
std::array<Option, kOwn + kCommonOptions> with_common(CommonOptions& o, const Option (&own)[kOwn],
                                                      std::int64_t most_threads = kMostThreads) {
  const std::array<Option, kCommonOptions> common = {{
      {'n', "threads", "N", Whole{&o.threads, 1, most_threads}, "threads that work at the same time"},
      {'r', "seed", "N", Whole{&o.seed, 0, INT64_MAX}, "seed: same seed, same operations everywhere"},
      {0, "latency", "N", Whole{&o.latency, 0, 1 << 30},
       "time every N-th call of a kind on its own, for percentiles; 0: none"},
      {0, "sample-period", "MS", Whole{&o.sample_period, 1, 60'000}, "milliseconds between two looks at memory"},
      {0, "log-operations", "FILE", Word{&o.log}, "write each heap operation as a line to FILE; times are then void"},
      {0, "format", "FORMAT", Word{&o.format, "table|none"}, "what is printed for people"},
      {0, "json", "FILE", Word{&o.json}, "write the result as JSON to FILE ('-': standard output)"},
  }};
  std::array<Option, kOwn + kCommonOptions> all;
  std::size_t at = 0;
  for (const Option& option : own) all[at++] = option;
  for (const Option& option : common) all[at++] = option;
  return all;
}

}  // namespace heapyard::kit
