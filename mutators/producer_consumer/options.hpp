// SPDX-License-Identifier: Apache-2.0
// What a producer_consumer run is asked to do.
#pragma once

#include <cstdint>

#include "../kit/common_options.hpp"
#include "../kit/result.hpp"
#include "sizes.hpp"

namespace heapyard::producer_consumer {

enum class Mode { kExchange, kRing, kPair };

struct Options {
  kit::CommonOptions common;
  Mode mode = Mode::kExchange;
  Law law = Law::kEven;
  bool one_size = false;       // one draw a thread instead of one an object
  std::int64_t min_size = 16;  // bytes
  std::int64_t max_size = 1000;
  std::int64_t rounds = 2;         // exchange: everything is freed after each
  std::int64_t loops = 1000;       // exchange, per round
  std::int64_t blocks = 5000;      // exchange: slots of a thread
  std::int64_t operations = 500;   // exchange: most allocations of a loop
  std::int64_t cross_rate = 2;     // exchange: every n-th loop makes a batch for another thread; 0: none
  std::int64_t in_flight = 4;      // exchange: batches that wait for one thread at most; 0: any number
  std::int64_t objects = 500'000;  // ring and pair, per producer
  std::int64_t ring = 1024;        // objects on their way, per pair of threads; a power of two
};

// Parses and checks, and tells the result what was asked; one sentence and exit 2 on bad options.
Options parse(int argc, char** argv, kit::Result& result);

const char* name_of(Mode mode);
const char* name_of(Law law);

}  // namespace heapyard::producer_consumer
