// SPDX-License-Identifier: Apache-2.0
// What each chain and each thread owns, and the composition of the heap at its peak.
//
// Idea: the exact composition at the highest point is kept without ever copying it: a peak is a number, and a chain
// that changes for the first time after it keeps what it had then. Cost: O(frames) per event, O(chains) to read a peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/collector/call_tree.hpp"
#include "tracer/collector/live_blocks.hpp"
#include "tracer/collector/size_histogram.hpp"

namespace heapyard::tracer {

struct Chain {
  std::uint32_t node;
  bool cut = false;
  std::int64_t bytes = 0;    // live
  std::int64_t in_tree = 0;  // what of it the call tree knows of; least and most since then
  std::int64_t low = 0, high = 0;
  bool changed = false;
  double blocks = 0;
  double variance = 0;          // of bytes as an estimate, bytes squared; 0 if every event is recorded
  std::int64_t peak_bytes = 0;  // when the whole heap was at peak number `peak`
  double peak_blocks = 0, peak_variance = 0;
  std::uint64_t peak = 0;
  std::int64_t own_peak = 0;              // the most this chain ever owned
  double allocations = 0, allocated = 0;  // over the whole run
  double temporary = 0;                   // freed by the very next call of their thread
};

struct Thread {
  std::uint32_t id = 0;
  std::string name;
  std::int64_t bytes = 0, own_peak = 0;
  double allocations = 0, allocated = 0;
};

class Accounts {
 public:
  explicit Accounts(std::size_t node_limit) : tree(node_limit) {}

  CallTree tree;
  std::vector<Chain> chains;
  std::vector<Thread> threads;
  SizeHistogram sizes;
  std::int64_t bytes = 0;
  double blocks = 0;
  std::int64_t rounding = 0;  // bytes beyond, that may be used; 0 where that is not asked
  double allocations = 0, frees = 0;
  std::int64_t low = 0, high = 0;  // of bytes since whoever reads them last reset them
  std::int64_t peak_bytes = 0;
  std::uint64_t peak_stamp = 0;

  void allocated(const Block& block, std::uint64_t size, bool first = true) {
    Chain& chain = chains[block.chain];
    keep_peak(chain);
    const auto amount = static_cast<std::int64_t>(block.bytes);
    chain.bytes += amount;
    chain.blocks += block.blocks;
    chain.variance += variance_of(block);
    chain.own_peak = std::max(chain.own_peak, chain.bytes);
    Thread& thread = threads[block.thread];
    thread.bytes += amount;
    thread.own_peak = std::max(thread.own_peak, thread.bytes);
    if (first) {
      chain.allocations += block.blocks;
      chain.allocated += static_cast<double>(amount);
      thread.allocations += block.blocks;
      thread.allocated += static_cast<double>(amount);
      allocations += block.blocks;
      sizes.add(size, block.blocks);
    }
    bytes += amount;
    blocks += block.blocks;
    rounding += static_cast<std::int64_t>(block.rounding);
    chain.high = std::max(chain.high, chain.bytes);
    note(block.chain);
    high = std::max(high, bytes);
    if (bytes > peak_bytes) {
      peak_bytes = bytes;
      peak_stamp = block.stamp;
      ++peak_;
    }
  }

  void freed(const Block& block, bool temporary) {
    Chain& chain = chains[block.chain];
    keep_peak(chain);
    const auto amount = static_cast<std::int64_t>(block.bytes);
    chain.bytes -= amount;
    chain.blocks -= block.blocks;
    chain.variance -= variance_of(block);
    if (temporary) chain.temporary += block.blocks;
    threads[block.thread].bytes -= amount;
    bytes -= amount;
    blocks -= block.blocks;
    rounding -= static_cast<std::int64_t>(block.rounding);
    frees += block.blocks;
    low = std::min(low, bytes);
    chain.low = std::min(chain.low, chain.bytes);
    note(block.chain);
  }

  std::int64_t at_peak(const Chain& chain) const { return chain.peak == peak_ ? chain.peak_bytes : chain.bytes; }
  double blocks_at_peak(const Chain& chain) const { return chain.peak == peak_ ? chain.peak_blocks : chain.blocks; }
  double variance_at_peak(const Chain& chain) const {
    return chain.peak == peak_ ? chain.peak_variance : chain.variance;
  }

  // Tells the call tree what its chains have done since the last time: once per chain that changed, not per event.
  // O(changed chains x depth). Extremes in between are kept for where chains end; further up the sums at such times
  // count.
  void propagate() {
    for (const std::uint32_t index : changed_) {
      Chain& chain = chains[index];
      Node& end = tree[chain.node];
      end.low = std::min(end.low, end.bytes + chain.low - chain.in_tree);
      end.high = std::max(end.high, end.bytes + chain.high - chain.in_tree);
      tree.add(chain.node, chain.bytes - chain.in_tree);
      chain.in_tree = chain.low = chain.high = chain.bytes;
      chain.changed = false;
    }
    changed_.clear();
  }

 private:
  void note(std::uint32_t index) {
    if (chains[index].changed) return;
    chains[index].changed = true;
    changed_.push_back(index);
  }
  void keep_peak(Chain& chain) const {
    if (chain.peak == peak_) return;
    chain.peak = peak_;
    chain.peak_bytes = chain.bytes;
    chain.peak_blocks = chain.blocks;
    chain.peak_variance = chain.variance;
  }

  // Horvitz and Thompson's unbiased estimate: z^2 (1 - p) / p^2 for a sampled block of z bytes, which counts z / p.
  static double variance_of(const Block& block) {
    const auto counted = static_cast<double>(block.bytes);
    return block.blocks > 1 ? counted * counted * (1 - 1 / static_cast<double>(block.blocks)) : 0;
  }

  std::uint64_t peak_ = 1;
  std::vector<std::uint32_t> changed_;  // chains
};

}  // namespace heapyard::tracer
