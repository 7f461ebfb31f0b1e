// SPDX-License-Identifier: Apache-2.0
// What an ACDC run is asked to do: every row of Table 1 of the paper, and what the lab needs besides.
#pragma once

#include <cstdint>

namespace heapyard::acdc {

enum class Mode { kAcdc, kFalseSharing };
enum class Placement { kHeap, kCompact, kAlign };
enum class AccessTime { kTick, kClass };  // live objects are accessed once per tick (paper) or after every class (code)
enum class Reads { kLinks, kPayload };    // a read follows the links only, or touches every word

inline constexpr std::int64_t kMostThreads = 1024;

// Defaults are the paper's (Table 1). `-a` and `--compat` start from the defaults of the published code instead.
struct Options {
  Mode mode = Mode::kAcdc;
  std::int64_t threads = 1;
  std::int64_t objects = 0;       // per lifetime-size-class; 0: the count law
  std::int64_t min_size = 16;     // bytes
  std::int64_t max_size = 255;    // bytes, included: 2^S - 1 when given as exponent S
  std::int64_t min_liveness = 1;  // ticks
  std::int64_t max_liveness = 10;
  std::int64_t delay = 0;            // ticks; lifetime = liveness + delay
  std::int64_t quantum = 256 << 10;  // bytes (accesses in false-sharing mode) per tick and thread
  std::int64_t duration = 50;        // ticks
  std::int64_t drift = 10;           // ticks
  std::int64_t list_ratio = 100;     // percent; the rest are trees
  bool access = true;
  std::int64_t write_ratio = 10;  // percent of the accessed objects
  std::int64_t write_iterations = 1;
  bool shared = false;
  std::int64_t shared_ratio = 100;    // percent of the classes
  std::int64_t receiver_ratio = 100;  // percent of the threads
  std::int64_t permanent_ratio = 0;   // percent of the classes
  std::int64_t seed = 1;
  std::int64_t repetition = 0;
  Placement placement = Placement::kHeap;
  AccessTime access_time = AccessTime::kTick;
  Reads reads = Reads::kLinks;
  bool compat = false;       // the quirks of the published code, see docs/acdc.md
  std::int64_t latency = 0;  // time every n-th operation on its own; 0: none
  std::int64_t verbosity = 0;
  const char* allocator_name = "UNDEFINED";
  const char* format = "table";
  const char* json = nullptr;   // file for the result, "-" for standard output
  const char* model = nullptr;  // file with an empirical distribution
};

// Parses and checks; one sentence and exit 2 on bad options.
Options parse(int argc, char** argv);

}  // namespace heapyard::acdc
