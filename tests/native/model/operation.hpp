// SPDX-License-Identifier: Apache-2.0
// One access to shared memory as the checker sees it, and which two of them depend on each other.
#pragma once

#include <atomic>
#include <cstdint>

namespace heapyard::model {

constexpr unsigned kMostThreads = 4;

enum class Kind : std::uint8_t {
  load,
  store,
  change,
  compare,
  fence,
  remote_fence,
  lock,
  unlock,
  wait,
  wake,
  yield,
  resume
};

struct Operation {
  Kind kind = Kind::yield;
  unsigned bytes = 0;
  std::uintptr_t address = 0;
  std::memory_order order = std::memory_order_relaxed, failure = std::memory_order_relaxed;
  std::uint64_t operand = 0, expected = 0;
  std::uint64_t (*change)(std::uint64_t old, std::uint64_t operand) = nullptr;
  unsigned target = 0;      // of a remote fence: the thread on whose processor it runs
  std::uintptr_t site = 0;  // where in the program
  bool wrote = true;        // as far as is known

  bool reads_only() const { return kind == Kind::load || kind == Kind::wait || !wrote; }
  // Has a place in the one order of all sequentially consistent operations.
  bool ordered() const {
    return kind == Kind::remote_fence || kind == Kind::wait || kind == Kind::wake || order == std::memory_order_seq_cst;
  }
  // Orders accesses to other locations too.
  bool fences() const {
    return kind == Kind::fence || kind == Kind::remote_fence || kind == Kind::wait || kind == Kind::wake;
  }
  bool acquires() const { return order != std::memory_order_relaxed && order != std::memory_order_release; }
  bool releases() const { return order != std::memory_order_relaxed && order != std::memory_order_acquire; }
};

// Whether the order of the two, of threads x and y, may matter.
inline bool conflict(const Operation& a, unsigned x, const Operation& b, unsigned y) {
  if (a.kind == Kind::remote_fence && a.target == y) return true;
  if (b.kind == Kind::remote_fence && b.target == x) return true;
  if (a.ordered() && b.ordered() && (a.fences() || b.fences())) return true;
  if (a.address == 0 || a.address != b.address) return false;
  return !(a.reads_only() && b.reads_only()) || (a.ordered() && b.ordered());
}

// Whether a choice of `waiting` (by thread y) that was explored before `done` (by x) must be explored again after it.
// What an operation reads, or behind which store it writes, is part of a choice. So most pairs give the same execution
// in either order, and need not.
inline bool wakes(const Operation& done, unsigned x, const Operation& waiting, unsigned y) {
  if (done.ordered() && waiting.ordered()) return conflict(done, x, waiting, y);
  if (done.kind == Kind::remote_fence || waiting.kind == Kind::remote_fence) return conflict(done, x, waiting, y);
  const auto blocks = [](Kind k) { return k == Kind::lock || k == Kind::unlock || k == Kind::wait || k == Kind::wake; };
  return (blocks(done.kind) || blocks(waiting.kind)) && conflict(done, x, waiting, y);
}

}  // namespace heapyard::model
