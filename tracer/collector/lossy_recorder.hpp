// SPDX-License-Identifier: Apache-2.0
// Which changes of a node's memory are worth a record.
//
// Idea: BFM's rule (seed report, section 4.3): a node that holds more than a page record, and whose memory differs from
// its last record by more than a rate, 5 % at first. Added: the least and the most since the last record are kept in
// it, so that spikes survive; a node has at least an interval between two records, which grows with the run (1/2000 of
// it); sampled memory must differ by twice its standard error, sqrt(R B), else the record would follow noise; and the
// rate rises as the file nears its limit (pace.hpp). Cost: O(changed nodes) per look.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tracer/collector/bytes.hpp"
#include "tracer/collector/call_tree.hpp"
#include "tracer/collector/pace.hpp"

namespace heapyard::tracer {

class LossyRecorder {
 public:
  static constexpr std::int64_t kFloor = 1024 * sizeof(void*);  // BFM's page record

  // Looks at every node that changed. `now`: microseconds; `interval`: mean bytes between samples, 0 for exact.
  void look(CallTree& tree, std::uint64_t now, double interval, const Pace& pace = {}) {
    const std::uint64_t least = pace.shortest(now);
    auto& changed = tree.changed();
    std::size_t kept = 0;
    for (const std::uint32_t index : changed) {
      Node& node = tree[index];
      const std::int64_t most = std::max(node.high, node.recorded);
      const auto reach = static_cast<double>(std::max(node.high - node.recorded, node.recorded - node.low));
      const auto base = static_cast<double>(std::max(node.recorded, kFloor));
      const double noise = 2 * std::sqrt(interval * static_cast<double>(most));
      if (most <= kFloor || reach <= std::max(Pace::kFirstRate * base, noise)) {
        node.changed = false;
      } else if (reach <= pace.rate() * base || (node.ever && now < node.recorded_at + least)) {
        changed[kept++] = index;  // too little for now, or too soon: looked at again
      } else {
        record(index, node, now);
        node.changed = false;
      }
    }
    changed.resize(kept);
  }

  // Everything that differs from its last record, whatever the rate: at the end.
  void finish(CallTree& tree, std::uint64_t now) {
    for (std::uint32_t index = 0; index < tree.size(); ++index) {
      if (tree[index].ever && tree[index].bytes != tree[index].recorded) record(index, tree[index], now);
    }
  }

  Bytes& pending() { return pending_; }
  const Bytes& pending() const { return pending_; }
  // Microseconds of the last record; the next chunk's times count from there.
  std::uint64_t last_time() const { return last_; }
  std::uint64_t records() const { return records_; }

 private:
  void record(std::uint32_t index, Node& node, std::uint64_t now) {
    pending_.number(now - last_);
    last_ = now;
    pending_.number(index);
    pending_.signed_number(node.bytes - node.recorded);
    pending_.number(static_cast<std::uint64_t>(node.bytes - node.low));
    pending_.number(static_cast<std::uint64_t>(node.high - node.bytes));
    node.recorded = node.low = node.high = node.bytes;
    node.recorded_at = now;
    node.ever = true;
    ++records_;
  }

  Bytes pending_;
  std::uint64_t last_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace heapyard::tracer
