// SPDX-License-Identifier: Apache-2.0
// A lifetime-size-class: the descriptor of objects that were allocated together, have one size and die together.
//
// Descriptors live in the producing thread's arena and go back to it from whichever thread freed the objects, so that
// an asymmetric flow from producers to consumers cannot exhaust anybody's (the published code runs out of nodes there).
// Layout in memory: [SizeClass, one cache line] [Sharers] [Link x receivers], the latter two only when sharing is on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../kit/arena.hpp"
#include "law.hpp"
#include "sharers.hpp"

namespace heapyard::acdc {

struct SizeClass;

// Membership of a class in one thread's lifetime-class. A class has one per receiving thread.
struct Link {
  Link* next;
  SizeClass* of;
};

struct alignas(kit::kCacheLine) SizeClass {
  void* head;            // first object, or the compact block
  SizeClass* next_free;  // in its owner's free list
  Link local;            // membership of an unshared class
  std::uint64_t size;    // bytes per object
  std::uint32_t count;
  std::uint32_t liveness;
  std::uint16_t owner;  // thread whose arena it came from
  Shape shape;
  bool shared;
  bool permanent;
};
static_assert(sizeof(SizeClass) == kit::kCacheLine);

// Where the variable parts of a descriptor lie, for one run.
struct DescriptorLayout {
  std::size_t threads = 1;
  std::size_t receivers = 0;  // per shared class; 0 when nothing is shared

  std::size_t bytes() const {
    return receivers == 0
               ? sizeof(SizeClass)
               : kit::round_up(sizeof(SizeClass) + Sharers::bytes(threads) + receivers * sizeof(Link), kit::kCacheLine);
  }
  Sharers sharers(SizeClass& c) const { return Sharers(reinterpret_cast<std::byte*>(&c) + sizeof(SizeClass), threads); }
  Link* links(SizeClass& c) const {
    return reinterpret_cast<Link*>(reinterpret_cast<std::byte*>(&c) + sizeof(SizeClass) + Sharers::bytes(threads));
  }
};

// Free descriptors of one thread: a list of its own and one that other threads push to. O(1) per operation.
class Descriptors {
 public:
  void start(kit::Arena& arena, const DescriptorLayout& layout) {
    arena_ = &arena;
    bytes_ = layout.bytes();
  }

  // By the owner alone.
  SizeClass* take() {
    if (!own_) own_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (SizeClass* found = own_) {
      own_ = found->next_free;
      return found;
    }
    return static_cast<SizeClass*>(arena_->take_bytes(bytes_));
  }
  void give_back_own(SizeClass* c) {
    c->next_free = own_;
    own_ = c;
  }

  // By any thread. Bound of the loop: a retry means that another push or the owner's take succeeded.
  void give_back(SizeClass* c) {
    SizeClass* first = returned_.load(std::memory_order_relaxed);
    do {
      c->next_free = first;
    } while (!returned_.compare_exchange_weak(first, c, std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  kit::Arena* arena_ = nullptr;
  std::size_t bytes_ = 0;
  SizeClass* own_ = nullptr;
  alignas(kit::kCacheLine) std::atomic<SizeClass*> returned_{nullptr};
};

}  // namespace heapyard::acdc
