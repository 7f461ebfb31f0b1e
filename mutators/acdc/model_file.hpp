// SPDX-License-Identifier: Apache-2.0
// An empirical distribution in place of the paper's laws: joint size x lifetime histogram, thread mix and sharing.
//
// Text, one statement per line, `#` starts a comment (docs/acdc.md):
//   heapyard-mutator-model 1
//   group 75                          share of the threads, in percent, that behave as the lines below say
//   shared 10 50                      share of classes shared, share of threads receiving, in percent
//   bucket 16 31 1 2 0.40             sizes 16..31 bytes, liveness 1..2 ticks, weight by number of objects
// Reading is O(lines); a draw is O(1) by the alias method (Walker 1977, Vose 1991).
#pragma once

#include <cstdint>

#include "../kit/arena.hpp"
#include "law.hpp"

namespace heapyard::acdc {

struct Bucket {
  std::uint64_t min_size, max_size;
  std::uint64_t min_liveness, max_liveness;
  double weight;
  double keep;          // alias method: keep this bucket with this probability,
  std::uint32_t alias;  // else take that one
};

struct Group {
  double share;                               // of the threads
  std::int64_t shared_ratio, receiver_ratio;  // percent
  Bucket* buckets;
  std::uint32_t count;
};

struct Model {
  Group* groups = nullptr;
  std::uint32_t count = 0;

  // The group of a thread: threads are dealt to groups in proportion to their shares, in order.
  const Group& group_of(std::int64_t thread, std::int64_t threads) const;
  std::uint64_t longest_liveness() const;
  std::uint64_t smallest_size() const;
  // Largest share of threads that receive a shared class, in any group; 0 when nothing is shared.
  std::int64_t receiver_ratio() const;
  // Mean bytes of an object, and mean liveness weighted by bytes.
  double mean_size() const;
};

// Reads the file into `arena`, which it reserves; one sentence with file and line, and exit 2, when it is not a model.
Model read_model(const char* path, kit::Arena& arena);

Draw draw_empirical(const Group& group, const Options& options, Random& random);

}  // namespace heapyard::acdc
