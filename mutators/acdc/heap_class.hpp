// SPDX-License-Identifier: Apache-2.0
// A heap-class: one lifetime-class per expiry time, as a ring indexed by clock; permanent objects in a class of their
// own.
//
// Insertion, splice and finding the expired class are O(1) (paper, Figures 3 and 4). One thread owns it; the
// distribution pool keeps plain lists under a lock instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../kit/arena.hpp"
#include "size_class.hpp"

namespace heapyard::acdc {

// A lifetime-class: links in order of insertion. INVARIANT: empty if and only if first is null; last is then undefined.
struct LifetimeClass {
  Link* first;
  Link* last;

  void append(Link* link) {
    link->next = nullptr;
    if (first)
      last->next = link;
    else
      first = link;
    last = link;
  }
  // Moves all of `other` to the end; O(1).
  void splice(LifetimeClass& other) {
    if (!other.first) return;
    if (first)
      last->next = other.first;
    else
      first = other.first;
    last = other.last;
    other.first = nullptr;
  }
  Link* take_all() {
    Link* all = first;
    first = nullptr;
    return all;
  }
};

class HeapClass {
 public:
  // Room for expiry times up to `longest` ticks ahead.
  void start(kit::Arena& arena, std::uint64_t longest) {
    slots_ = longest + 1;
    ring_ = arena.take<LifetimeClass>(slots_);
  }
  LifetimeClass& expiring_at(std::uint64_t clock) { return ring_[clock % slots_]; }
  LifetimeClass& permanent() { return permanent_; }
  std::uint64_t slots() const { return slots_; }

 private:
  LifetimeClass* ring_ = nullptr;
  std::uint64_t slots_ = 0;
  LifetimeClass permanent_{};
};

}  // namespace heapyard::acdc
