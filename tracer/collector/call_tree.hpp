// SPDX-License-Identifier: Apache-2.0
// All call chains as one tree, outermost function at the root; every node knows the memory of what lies below it.
//
// Idea: the paper's PATRICIA dictionary makes the cost of a chain independent of its length and shares common parts
// (seed report of BFM, section 4.2). A tree of calls with a hash of (parent, address) shares the same parts at one or
// two misses of the cache where PATRICIA has log2(chains); a chain is looked up by a hash of it, so its length is paid
// once. Cost: insert O(frames) once per chain; add O(frames).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tracer/collector/bytes.hpp"

namespace heapyard::tracer {

struct Node {
  std::uint64_t offset;  // in its module
  std::uint32_t module;
  std::uint32_t parent;
  std::int64_t bytes = 0;              // live, of this node and all below it
  std::int64_t low = 0, high = 0;      // since the last record
  std::int64_t recorded = 0;           // what the last record said
  std::uint64_t recorded_at = 0;       // microseconds
  bool changed = false, ever = false;  // since the last look; has a record
};

class CallTree {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint64_t kBeyond = 3;  // an offset in no module: calls of which not even the first has a node

  // `limit`: nodes at most, and one for those; beyond it chains end at the last node there is.
  explicit CallTree(std::size_t limit) : limit_(limit), buckets_(1 << 12, kNone) { nodes_.push_back({0, 0, kRoot}); }

  std::uint32_t child(std::uint32_t parent, std::uint32_t module, std::uint64_t offset) {
    std::size_t at = place(parent, module, offset);
    for (; buckets_[at] != kNone; at = (at + 1) & (buckets_.size() - 1)) {
      const Node& node = nodes_[buckets_[at]];
      if (node.parent == parent && node.module == module && node.offset == offset) return buckets_[at];
    }
    if (nodes_.size() >= limit_ && offset != kBeyond) {
      ++refused_;
      return parent == kRoot ? child(kRoot, 0, kBeyond) : parent;
    }
    buckets_[at] = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({offset, module, parent});
    if (nodes_.size() * 2 > buckets_.size()) rehash();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }

  // `bytes` more at `node` and all above it.
  void add(std::uint32_t node, std::int64_t bytes) {
    for (;; node = nodes_[node].parent) {
      Node& at = nodes_[node];
      at.bytes += bytes;
      at.low = std::min(at.low, at.bytes);
      at.high = std::max(at.high, at.bytes);
      if (!at.changed) {
        at.changed = true;
        changed_.push_back(node);
      }
      if (node == kRoot) return;
    }
  }

  Node& operator[](std::uint32_t node) { return nodes_[node]; }
  const Node& operator[](std::uint32_t node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }
  std::uint64_t refused() const { return refused_; }
  // Nodes that changed and were not looked at since; the caller takes out what it has dealt with.
  std::vector<std::uint32_t>& changed() { return changed_; }

  void write(Bytes& out, std::size_t written) const {
    for (std::size_t index = written; index < nodes_.size(); ++index) {
      out.number(nodes_[index].parent);
      out.number(nodes_[index].module);
      out.number(nodes_[index].offset);
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::size_t place(std::uint32_t parent, std::uint32_t module, std::uint64_t offset) const {
    std::uint64_t hash = (offset ^ static_cast<std::uint64_t>(module) << 48) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 31 ^ parent) * 0x94d049bb133111ebu;
    return static_cast<std::size_t>(hash ^ hash >> 32) & (buckets_.size() - 1);
  }
  void rehash() {
    buckets_.assign(buckets_.size() * 2, kNone);
    for (std::uint32_t index = 1; index < nodes_.size(); ++index) {
      std::size_t at = place(nodes_[index].parent, nodes_[index].module, nodes_[index].offset);
      while (buckets_[at] != kNone) at = (at + 1) & (buckets_.size() - 1);
      buckets_[at] = index;
    }
  }

  std::size_t limit_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> buckets_;
  std::vector<std::uint32_t> changed_;
  std::uint64_t refused_ = 0;
};

}  // namespace heapyard::tracer
