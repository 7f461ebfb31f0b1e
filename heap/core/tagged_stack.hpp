// SPDX-License-Identifier: Apache-2.0
// A lock-free stack whose top carries a tag against ABA.
//
// Idea: Treiber (1986) with a counter beside the pointer, as scalloc has it: 48 bits of address and 16 of tag,
// which each push and pop raises by one. A node that is popped, used and pushed again while another thread sleeps
// in pop changes the tag. Cost: O(1) apart from retries. Threads: any. Nodes must stay mapped for ever: pop reads
// the link of a node that another thread may just have taken.
#pragma once

#include <cstdint>

#include "heap/core/concurrency.hpp"

namespace heapyard::core {

// A pointer and a tag in one word that can be compared and swapped.
class Tagged {
 public:
  constexpr Tagged() = default;
  Tagged(const void* pointer, std::uint64_t tag)
      : word_((reinterpret_cast<std::uint64_t>(pointer) & kAddress) | tag << kBits) {}
  explicit constexpr Tagged(std::uint64_t word) : word_(word) {}

  template <class T>
  T* pointer() const {
    // Sign-extended: what the upper half of the address space would need.
    return reinterpret_cast<T*>(static_cast<std::int64_t>(word_ << (64 - kBits)) >> (64 - kBits));
  }
  std::uint64_t tag() const { return word_ >> kBits; }
  std::uint64_t word() const { return word_; }
  bool operator==(const Tagged&) const = default;

 private:
  static constexpr int kBits = 48;
  static constexpr std::uint64_t kAddress = (std::uint64_t{1} << kBits) - 1;
  std::uint64_t word_ = 0;
};

// Node has an atomic member `Node* link`, the stack's while the node is on it.
template <class Node, ConcurrencyPolicy Policy = Concurrency>
class TaggedStack {
 public:
  constexpr TaggedStack() = default;

  void push(Node* node) {
    Tagged top(top_.load(std::memory_order_relaxed));
    for (;;) {  // bound: each turn is a push or pop of another thread
      node->link.store(top.pointer<Node>(), std::memory_order_relaxed);
      std::uint64_t seen = top.word();
      if (top_.compare_exchange_weak(seen, Tagged(node, top.tag() + 1).word(), std::memory_order_release,
                                     std::memory_order_relaxed)) {
        return;
      }
      top = Tagged(seen);
    }
  }

  // Null if the stack is empty.
  Node* pop() {
    Tagged top(top_.load(std::memory_order_acquire));
    for (;;) {  // bound: the same
      Node* node = top.pointer<Node>();
      if (node == nullptr) return nullptr;
      Node* next = node->link.load(std::memory_order_relaxed);
      std::uint64_t seen = top.word();
      if (top_.compare_exchange_weak(seen, Tagged(next, top.tag() + 1).word(), std::memory_order_acquire)) return node;
      top = Tagged(seen);
    }
  }

  // In the child of a fork, which has one thread: what lay here lies nowhere.
  void clear() {
    const Tagged top(top_.load(std::memory_order_relaxed));
    top_.store(Tagged(nullptr, top.tag() + 1).word(), std::memory_order_relaxed);
  }

  bool empty() const { return Tagged(top_.load(std::memory_order_relaxed)).template pointer<Node>() == nullptr; }

 private:
  typename Policy::template Atomic<std::uint64_t> top_{0};
};

}  // namespace heapyard::core
