// SPDX-License-Identifier: Apache-2.0
// What a heap owns once per process: the gate, the exit hook, the fork handlers, and the blocks put aside.
//
// Idea: a thread registers on its first visit. The process registers when the library is loaded, or on the first visit
// of its first thread. That is before main, and before any other library registers for a fork, so the prepare handlers
// of others run before ours. (A fork that had begun by then would not know of us. Only a thread of a program that loads
// us late can cause that.)
// A fork closes the gate (layers/gate.hpp) from prepare to parent. Threads that are refused meanwhile, and threads that
// are inside already, get lone mappings. Blocks that they free are put aside, and the next ordinary slow path frees
// them. A thread that ends meanwhile leaves its front end to the forking thread. The child gives back what threads held
// that it does not have, where the front end can find it.
// Cost: enter and leave O(1); a first visit a few system calls.
#pragma once

#include <cstdint>

#include "heap/core/free_stack.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/gate.hpp"
#include "heap/os/asymmetric_fence.hpp"
#include "heap/os/pages.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

// `Layers`, static members only: Front, `front()`, and start() for what must be done before the first visit.
template <class Layers>
  requires FrontEnd<typename Layers::Front>
class Process {
  using Front = typename Layers::Front;
  using Thread = typename Front::Thread;
  using Entry = typename Front::Entry;
  using Place = Gate::Place;

 public:
  using Visit = typename Entry::Visit;

  // For what a thread that is inside does past its own front end.
  static constexpr Visit kWithoutFrontEnd{nullptr, Entry::Phase::live, false};

  // For a constructor of the library; harmless at any time.
  static void begin() {
    started_.run([] {
      Layers::start();
      hook_.create(at_thread_exit);
      os::AsymmetricFence::begin();
      os::at_fork(fork_prepare, fork_parent, fork_child);
    });
  }

  static Visit enter() {
    Thread* thread = Entry::take();
    if (thread == &Thread::nobody) [[unlikely]]
      return enter_without_front_end();
    if (!gate_.enter(*place_)) [[unlikely]] {
      Entry::put(thread);
      return kRefused;
    }
    return Entry::visit_of(thread);
  }

  static void leave(const Visit& visit) {
    if (visit.again) [[unlikely]]
      return;
    if (visit.thread != nullptr) [[likely]]
      gate_.leave(*place_);
    else
      gate_.leave();
    Entry::leave(visit);
  }

  // For what need not be at once: who is refused comes again a few times. A tenth of a second at most.
  static Visit enter_patiently() {
    Visit visit = enter();
    for (int turn = 0; visit.again && gate_.closed() && forks_ == 0 && turn < 100; ++turn) {
      gate_.wait_for_opening();
      visit = enter();
    }
    return visit;
  }

  // By a thread whose visit is `again`: before it takes memory without the heap.
  static void pace() {
    if (gate_.closed() && forks_ == 0 && !for_ever_) gate_.pace();
  }

  // By a thread whose visit is `again`.
  static void put_aside(void* block) { aside_.push(block); }

  // Calls free(block) for some of the blocks put aside.
  static constexpr unsigned kFew = 8, kAll = ~0u;
  template <class Free>
  static void work_off(unsigned most, Free free) {
    if (!aside_.empty()) [[unlikely]]
      aside_.work_off(most, free);
  }

 private:
  static constexpr Visit kRefused{nullptr, Entry::Phase::live, true};

  // The first visit of a thread, one after its end, or one in the middle of another.
  [[gnu::noinline, gnu::cold]] static Visit enter_without_front_end() {
    const Visit visit = Entry::begin();
    if (visit.again) return visit;
    const bool fresh = visit.after == Entry::Phase::fresh;
    if (fresh) begin();  // outside of the gate: it may wait for the C library
    if (!gate_.enter()) {
      Entry::leave(visit);
      return kRefused;
    }
    if (!fresh) return visit;
    Place* place = gate_.take_place(os::map);
    Thread* thread = place == nullptr ? nullptr : Layers::front().start();
    if (thread == nullptr) {
      if (place != nullptr) gate_.give_place_back(place);
      return visit;
    }
    place_ = place;
    gate_.move_to(*place);
    hook_.arm();
    return Entry::visit_of(thread);
  }

  static void at_thread_exit(void*) {
    Thread* thread = Entry::end();
    if (thread == nullptr) return;
    Place* place = place_;
    place_ = nullptr;
    if (thread == &Thread::nobody) {  // it ends in the middle of a visit
      gate_.leave(*place);
      gate_.give_place_back(place);
    } else if (gate_.enter(*place)) {
      stop(thread);
      gate_.leave(*place);
      gate_.give_place_back(place);
    } else {
      gate_.leave_behind(*place, thread);
      if (gate_.enter()) {  // the fork may have been done before it could see this one
        stop_left_behind();
        gate_.leave();
      }
    }
    Entry::ended();
  }

  [[gnu::noinline]] static void stop(Thread* thread) { Layers::front().stop(thread); }

  // Front ends of threads that ended while the gate was closed. Bound: that many.
  static void stop_left_behind() {
    while (Place* place = gate_.take_left_behind()) {
      stop(static_cast<Thread*>(place->front_end));
      gate_.give_place_back(place);
    }
  }

  // A handler may fork itself; and handlers may be registered twice, by a fork in the middle of begin().
  static void fork_prepare() {
    const bool nested = forks_++ != 0, again = Entry::inside();
    gate_.close();
    if (core::Concurrency::alone()) {
      whole_ = true;
      return;
    }
    // A signal handler may fork in the middle of a visit of its own thread. Others may wait for a lock that this visit
    // holds, so that handler waits for them a little only.
    const bool empty = gate_.wait_until_empty(place_, nested || again ? kPatience : Gate::kForEver);
    if (!nested) held_ = empty && Layers::front().fork_prepare(!again);
    whole_ = empty && held_;
  }

  static void fork_parent() {
    if (forks_ == 0) return;  // a fork that does not know our first handler
    if (forks_ == 1 && held_) {
      held_ = false;
      Layers::front().fork_parent();
    }
    --forks_;
    gate_.open();
    const Visit visit = enter();
    if (visit.again) return;  // another fork, or the visit that was interrupted, is not done
    stop_left_behind();
    leave(visit);
  }

  static void fork_child() {
    if (forks_ == 0) return;
    --forks_;
    gate_.forget_others(place_);
    // Somebody who is not here was in the middle of something. The child, which such a handler seldom returns to, has
    // to do without the heap.
    for_ever_ = for_ever_ || !whole_;
    if (whole_) {
      if (held_) Layers::front().fork_child(forks_);
      held_ = held_ && forks_ != 0;
      if (!Entry::inside()) {
        Thread* own = Entry::take();
        const Visit visit = own == &Thread::nobody ? Entry::begin() : Entry::visit_of(own);
        Layers::front().take_over(visit.thread);
        Entry::leave(visit);
      }
    }
    gate_.open_in_child(forks_ + (for_ever_ ? 1 : 0));
  }

  static constexpr unsigned kPatience = 10;  // milliseconds

  static inline constinit core::FreeStack aside_;
  static inline constinit os::ThreadExitHook hook_;
  static inline constinit os::OnceAcrossForks started_;
  static inline constinit Gate gate_;
  static inline constinit bool for_ever_ = false;  // closed, in this process
  // Of this thread.
  static inline constinit thread_local Place* place_ = nullptr;   // while it has a front end
  static inline constinit thread_local std::uint32_t forks_ = 0;  // prepared, and neither parent nor child yet
  static inline constinit thread_local bool whole_ = false;       // nobody else was inside when it forked last
  static inline constinit thread_local bool held_ = false;        // the front end's own locks
};

}  // namespace heapyard
