// SPDX-License-Identifier: Apache-2.0
// Memory as C++20 and RC11 allow it to be seen (Lahav et al., "Repairing Sequential Consistency in C/C++11", PLDI
// 2017), as a machine that executes one operation at a time.
//
// Idea: a location keeps all its stores, in modification order. A thread has a view: of each location, the oldest store
// that it may still read; and how far each thread had come in what happened before. A store carries the view that it
// releases. An acquire joins it to the reader's own. A read-modify-write reads a store, and its own comes right behind
// that. A store may come to lie before stores that other threads made earlier, where its thread's view allows it. The
// sequentially consistent operations execute in their one order: of each location they know the latest store that one
// of them has written or read, and fences exchange whole views (Kang et al., "A Promising Semantics", POPL 2017). What
// is not modelled: a load that reads a store which its own thread's later stores cause (load buffering, which RC11
// forbids); an order of sequentially consistent operations that runs against what relaxed ones have read; a weak
// compare-and-swap that fails for no reason. Cost: O(stores of a location) an operation.
//
// Plain accesses need no choice. Two of them that conflict, and of which none happened before the other, are a race,
// which ends the schedule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "operation.hpp"

namespace heapyard::model {

struct View {
  std::vector<std::uint64_t> at;  // by location: a place in its modification order
  std::uint32_t clock[kMostThreads] = {};

  std::uint64_t of(unsigned location) const { return location < at.size() ? at[location] : 0; }
  void raise(unsigned location, std::uint64_t place) {
    if (location >= at.size()) at.resize(location + 1);
    at[location] = std::max(at[location], place);
  }
  void join_places(const View& other) {
    for (unsigned i = 0; i < other.at.size(); ++i) raise(i, other.at[i]);
  }
  void join(const View& other) {
    join_places(other);
    for (unsigned t = 0; t < kMostThreads; ++t) clock[t] = std::max(clock[t], other.clock[t]);
  }
};

class Memory {
 public:
  // Names a store in every execution that has it: its thread, and its number there. 0: what was there before.
  using Id = std::uint32_t;
  struct Result {
    std::uint64_t value = 0;
    bool done = true;  // of a compare-and-swap: it swapped; of a wait: the word had the value
  };

  Memory() {
    for (unsigned t = 0; t < kMostThreads; ++t) threads_seen_[t].now.clock[t] = 1;
  }

  // The stores that the operation may read, or right behind which it may write; one, if it does neither. `inserts`:
  // stores may come to lie before others.
  void choices(unsigned thread, const Operation& op, bool inserts, std::vector<Id>& out) {
    out.clear();
    if (op.address == 0 || op.kind == Kind::lock || op.kind == Kind::unlock || op.kind == Kind::wake) {
      out.push_back(0);
      return;
    }
    const unsigned at = location(op);
    std::uint64_t floor = threads_seen_[thread].now.of(at);
    if (op.kind == Kind::wait) floor = std::max(floor, ordered_.of(at));
    const auto& stores = locations_[at].stores;
    for (auto store = stores.rbegin(); store != stores.rend(); ++store) {
      const bool last = store == stores.rbegin();
      if (store->place < floor && !last) break;
      bool writes = op.kind == Kind::store || op.kind == Kind::change;
      std::memory_order order = op.order;
      if (op.kind == Kind::compare) {
        writes = store->value == op.expected;
        if (!writes) order = op.failure;
      }
      if (order == std::memory_order_seq_cst && store->place < ordered_.of(at)) continue;
      if (writes && (store->updated || (!inserts && !last))) continue;
      out.push_back(store->id);
    }
  }

  Result execute(unsigned thread, Operation& op, Id choice) {
    Thread& self = threads_seen_[thread];
    Result result;
    switch (op.kind) {
      case Kind::fence:
        fence(self, op.order);
        break;
      case Kind::remote_fence:
        fence(threads_seen_[op.target], std::memory_order_seq_cst);
        break;
      case Kind::lock:
        self.now.join(locks_[op.address]);
        break;
      case Kind::unlock:
        locks_[op.address] = self.now;
        break;
      case Kind::wake:
        fence(self, std::memory_order_seq_cst);
        break;
      case Kind::wait:
        fence(self, std::memory_order_seq_cst);
        result.value = read(self, op, choice, std::memory_order_relaxed).value;
        result.done = result.value == op.expected;
        break;
      case Kind::load:
        result.value = read(self, op, choice, op.order).value;
        break;
      case Kind::store:
        write(thread, op, choice, op.operand, nullptr);
        break;
      case Kind::change: {
        const Store from = read(self, op, choice, op.order);
        result.value = from.value;
        write(thread, op, choice, masked(op.change(from.value, op.operand), op.bytes), &from);
        break;
      }
      case Kind::compare: {
        result.done = store_of(location(op), choice).value == op.expected;
        const Store from = read(self, op, choice, result.done ? op.order : op.failure);
        result.value = from.value;
        if (result.done) {
          write(thread, op, choice, op.operand, &from);
        } else {
          op.wrote = false;
          op.order = op.failure;
        }
        break;
      }
      case Kind::yield:
      case Kind::resume:
        break;
    }
    ++self.now.clock[thread];
    return result;
  }

  // A store does not stay unseen for ever: the thread sees the newest of each location.
  void catch_up(unsigned thread) {
    for (unsigned i = 0; i < locations_.size(); ++i)
      threads_seen_[thread].now.raise(i, locations_[i].stores.back().place);
  }
  // Not a step of the schedule.
  void local_fence(unsigned thread, std::memory_order order) { fence(threads_seen_[thread], order); }

  // Whether the access is in a race with an earlier one, whose site is `other` then.
  bool races(unsigned thread, std::uintptr_t address, std::size_t bytes, bool writes, bool atomic, std::uintptr_t site,
             std::uintptr_t& other) {
    const View& now = threads_seen_[thread].now;
    for (std::uintptr_t at = address, end = address + bytes; at < end;) {
      const std::uintptr_t granule = at & ~std::uintptr_t{7}, rest = granule + 8 < end ? granule + 8 : end;
      const auto mask = static_cast<std::uint8_t>(((1u << (rest - at)) - 1) << (at - granule));
      auto& records = plain_[granule];
      for (const Record& record : records) {
        if ((record.mask & mask) == 0 || record.thread == thread || (!writes && !record.writes)) continue;
        if ((atomic && record.atomic) || record.clock <= now.clock[record.thread]) continue;
        other = record.site;
        return true;
      }
      std::erase_if(records, [&](const Record& r) {
        return r.thread == thread && r.writes == writes && r.atomic == atomic && (r.mask & ~mask) == 0;
      });
      records.push_back({now.clock[thread], static_cast<std::uint8_t>(thread), mask, writes, atomic, site});
      if (writes && !atomic) forget(granule);
      at = rest;
    }
    return false;
  }

 private:
  struct Store {
    std::uint64_t place, value;
    Id id;
    bool updated = false;  // a read-modify-write read it, and lies right behind it
    View view;
  };
  struct Location {
    std::uintptr_t address;
    unsigned bytes;
    bool stale = false;  // written by a plain access since
    std::vector<Store> stores;
  };
  struct Thread {
    View now;       // what it knows
    View pending;   // what an acquire fence would add
    View released;  // what relaxed stores release, since the last release fence
    Id stores = 0;
  };
  struct Record {
    std::uint32_t clock;
    std::uint8_t thread, mask;
    bool writes, atomic;
    std::uintptr_t site;
  };
  static constexpr std::uint64_t kApart = std::uint64_t{1} << 32;

  static std::uint64_t masked(std::uint64_t value, unsigned bytes) {
    return bytes == 8 ? value : value & ((std::uint64_t{1} << (bytes * 8)) - 1);
  }
  static std::uint64_t there(std::uintptr_t address, unsigned bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(address), bytes);
    return value;
  }

  unsigned location(const Operation& op) {
    const auto [at, fresh] = index_.try_emplace(op.address, static_cast<unsigned>(locations_.size()));
    if (fresh) locations_.push_back({op.address, op.bytes, false, {}});
    Location& found = locations_[at->second];
    if (fresh || found.stale) {  // a plain write: who does not know of it is in a race
      const std::uint64_t place = found.stores.empty() ? kApart : found.stores.back().place + kApart;
      found.stores.clear();
      found.stores.push_back({place, there(op.address, op.bytes), 0, false, {}});
      found.stale = false;
    }
    return at->second;
  }
  void forget(std::uintptr_t granule) {
    for (std::uintptr_t at = granule; at < granule + 8; ++at) {
      if (const auto found = index_.find(at); found != index_.end()) locations_[found->second].stale = true;
    }
  }
  Store& store_of(unsigned at, Id id) {
    return *std::ranges::find_if(locations_[at].stores, [&](const Store& store) { return store.id == id; });
  }

  void fence(Thread& self, std::memory_order order) {
    if (order == std::memory_order_relaxed) return;
    if (order != std::memory_order_release) self.now.join(self.pending);
    if (order == std::memory_order_seq_cst) {
      self.now.join_places(ordered_);
      ordered_.join_places(self.now);
    }
    if (order != std::memory_order_acquire) self.released = self.now;
  }

  const Store& read(Thread& self, const Operation& op, Id choice, std::memory_order order) {
    const unsigned at = location(op);
    const Store& store = store_of(at, choice);
    self.now.raise(at, store.place);
    const bool acquires = order != std::memory_order_relaxed && order != std::memory_order_release;
    (acquires ? self.now : self.pending).join(store.view);
    if (order == std::memory_order_seq_cst) ordered_.raise(at, store.place);
    return store;
  }

  // Right behind the store of `choice`. `from`: what a read-modify-write read, whose release it goes on with.
  void write(unsigned thread, const Operation& op, Id choice, std::uint64_t value, const Store* from) {
    const unsigned at = location(op);
    Thread& self = threads_seen_[thread];
    auto& stores = locations_[at].stores;
    const auto before = std::ranges::find_if(stores, [&](const Store& store) { return store.id == choice; });
    if (from != nullptr) before->updated = true;
    const auto after = before + 1;
    const std::uint64_t place =
        after == stores.end() ? before->place + kApart : before->place + (after->place - before->place) / 2;
    Store made{place, value, static_cast<Id>((thread + 1) << 16 | ++self.stores), false, {}};
    self.now.raise(at, place);
    made.view = op.releases() ? self.now : self.released;
    if (from != nullptr) made.view.join(from->view);
    made.view.raise(at, place);
    if (op.order == std::memory_order_seq_cst) ordered_.raise(at, place);
    stores.insert(after, std::move(made));
    std::memcpy(reinterpret_cast<void*>(op.address), &stores.back().value, op.bytes);
  }

  Thread threads_seen_[kMostThreads];
  View ordered_;  // of the sequentially consistent operations
  std::vector<Location> locations_;
  std::unordered_map<std::uintptr_t, unsigned> index_;
  std::unordered_map<std::uintptr_t, View> locks_;
  std::unordered_map<std::uintptr_t, std::vector<Record>> plain_;
};

}  // namespace heapyard::model
