// SPDX-License-Identifier: Apache-2.0
// Which threads are inside the heap, and how a fork closes it, so that the child finds no operation half done.
//
// Idea: a thread that forks must find every lock free and every structure whole. But it may not make another thread
// wait: that thread may hold a lock of the C library, say of its open files, for which the fork waits next. So a fork
// first closes the gate. From then on the gate refuses threads, and they do without the heap. Then the forking thread
// waits until all threads inside have left. These wait only for locks of the heap, which others inside hold, so they do
// leave. No lock is held across the fork.
// A thread is inside while its place says so. It writes its place and then reads the gate; a fork closes the gate and
// then reads the places. Forks may overlap, so the gate counts them.
// Cost: enter and leave O(1), two stores and two loads, no atomic instruction; without a place two atomic additions.
// close O(places), as many as the most threads there ever were at once. Atomics: core/concurrency.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/core/concurrency.hpp"
#include "heap/core/tagged_stack.hpp"

namespace heapyard {

// Chunk: places made at a time.
template <core::WaitingPolicy Policy = core::Concurrency, std::size_t Chunk = 64>
class GateOf {
 public:
  template <class T>
  using Atomic = typename Policy::template Atomic<T>;

  // Of one thread, in a cache line of its own. All zero at first.
  struct alignas(64) Place {
    Atomic<std::uint32_t> inside;
    Atomic<Place*> link;  // of the stack it lies on, unused or left behind
    Place* before;        // made before this one; never changes
    void* front_end;      // of a thread that ended while the gate was closed
  };

  constexpr GateOf() = default;

  // Whether the thread of this place may go in; if so it must leave().
  bool enter(Place& place) {
    place.inside.store(1, std::memory_order_relaxed);
    Policy::light_fence();
    if (closed_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    leave(place);
    return false;
  }
  void leave(Place& place) {
    place.inside.store(0, std::memory_order_release);
    Policy::light_fence();
    if (closed_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      tell_left();
  }

  // The same for a thread without a place.
  bool enter() {
    if (closed()) return false;
    without_place_.fetch_add(1, std::memory_order_seq_cst);
    if (!closed()) return true;
    leave();
    return false;
  }
  void leave() {
    std::uint32_t seen = without_place_.load(std::memory_order_relaxed);
    // Bound: each turn is a visit of another thread. It is 0 in the child of a handler that forked in mid-visit.
    while (seen != 0 && !without_place_.compare_exchange_weak(seen, seen - 1, std::memory_order_seq_cst)) {
    }
    if (closed()) tell_left();
  }

  // By a thread that is inside without a place: from here on it is inside with one.
  void move_to(Place& place) {
    place.inside.store(1, std::memory_order_seq_cst);
    leave();
  }

  bool closed() const { return closed_.load(std::memory_order_seq_cst) != 0; }

  // A place for a thread; null if there is none to be had. `make(bytes)` gives zeroed memory, or null.
  template <class Make>
  Place* take_place(Make make) {
    if (Place* place = unused_.pop()) return place;
    auto* chunk = static_cast<Place*>(make(Chunk * sizeof(Place)));
    if (chunk == nullptr) return nullptr;
    for (Place* place = chunk; place != chunk + Chunk; ++place) {
      Place* made = made_.load(std::memory_order_relaxed);
      do {  // bound: each turn is a place that another thread made
        place->before = made;
      } while (!made_.compare_exchange_weak(made, place, std::memory_order_seq_cst));
      if (place != chunk) unused_.push(place);
    }
    return chunk;
  }
  void give_place_back(Place* place) { unused_.push(place); }

  // From here on nobody comes in.
  void close() {
    closed_.fetch_add(1, std::memory_order_seq_cst);
    Policy::heavy_fence();
  }
  // After close(): returns once nobody is inside, but for the thread of `own`, which may be null. `patience`: how often
  // to sleep, a millisecond at most each, until it gives up. Whether it did not.
  static constexpr unsigned kForEver = ~0u;
  bool wait_until_empty(const Place* own, unsigned patience) {
    // Whoever moves to a place is without one until then, so these are looked at first.
    bool empty = await(without_place_, patience);
    for (Place* place = made_.load(std::memory_order_seq_cst); place != nullptr && empty; place = place->before) {
      if (place != own) empty = await(place->inside, patience);
    }
    return empty;
  }

  // In the parent.
  void open() {
    if (closed_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
    served_.store(0, std::memory_order_relaxed);
    Policy::wake(closed_);
  }

  // In the child, whose only thread is that of `own`: of the others' places nothing is left. The gate stays closed.
  void forget_others(Place* own) {
    without_place_.store(0, std::memory_order_relaxed);
    unused_.clear();
    left_behind_.clear();
    for (Place* place = made_.load(std::memory_order_relaxed); place != nullptr; place = place->before) {
      if (place == own) continue;
      place->inside.store(0, std::memory_order_relaxed);
      unused_.push(place);
    }
  }
  // In the child, at last: for as many forks as the child is in the middle of.
  void open_in_child(std::uint32_t forks) {
    served_.store(0, std::memory_order_relaxed);
    closed_.store(forks, std::memory_order_release);
    if (forks == 0) Policy::wake(closed_);
  }

  // By a thread that was refused, before it takes memory without the heap. The first come freely; each further one
  // waits a little, which keeps down what is taken, and never longer, for the fork may be waiting for that very thread.
  void pace() {
    if (served_.fetch_add(1, std::memory_order_relaxed) >= kFreely) wait_for_opening();
  }
  // A millisecond at most.
  void wait_for_opening() {
    if (const std::uint32_t closed = closed_.load(std::memory_order_relaxed)) Policy::wait(closed_, closed, kPace);
  }

  // The front end of a thread that ends while the gate is closed is left behind, in its place.
  void leave_behind(Place& place, void* front_end) {
    place.front_end = front_end;
    left_behind_.push(&place);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // A place with a front end that was left behind, or null. Whoever takes it gives the place back. The fences: either
  // the thread that ended finds the gate open, or who opened it finds the front end.
  Place* take_left_behind() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return left_behind_.pop();
  }

 private:
  static constexpr std::uint32_t kFreely = 1024;
  static constexpr unsigned kPace = 1;  // milliseconds

  [[gnu::noinline, gnu::cold]] void tell_left() {
    left_.fetch_add(1, std::memory_order_seq_cst);
    Policy::wake(left_);
  }

  // Whether the word became 0. Bound: the visits of one thread, or of all without a place; none begins any more.
  bool await(const Atomic<std::uint32_t>& inside, unsigned& patience) {
    for (;;) {
      const std::uint32_t left = left_.load(std::memory_order_seq_cst);
      if (inside.load(std::memory_order_seq_cst) == 0) return true;
      if (patience == 0) return false;
      if (patience != kForEver) --patience;
      Policy::wait(left_, left, patience == kForEver ? 0 : 1);
    }
  }

  alignas(64) Atomic<std::uint32_t> closed_{0};         // by so many forks; in a line that hardly ever changes
  alignas(64) Atomic<std::uint32_t> without_place_{0};  // inside
  Atomic<std::uint32_t> left_{0};    // how often a thread left while the gate was closed: to sleep on
  Atomic<std::uint32_t> served_{0};  // without the heap, since it was closed
  Atomic<Place*> made_{nullptr};     // every place ever, the newest first
  core::TaggedStack<Place, Policy> unused_;
  core::TaggedStack<Place, Policy> left_behind_;
};

using Gate = GateOf<>;

}  // namespace heapyard
