// What a heap owns once per process: who is inside, the exit hook, the fork handlers, and the blocks put aside.
//
// Idea: a thread registers on its first visit; the process when the library is loaded or on that of its first thread,
// before main and before any other library registers for a fork, so that their prepare handlers run before ours. (A
// fork that had begun by then would not know of us: only a thread of a program that loads us late can do that.) The
// handlers hold every lock
// from prepare to parent; handlers of other libraries may allocate meanwhile, they count as inside
// (layers/frontend/entry.hpp). What such a thread frees is put aside and freed by the next ordinary slow path. Cost:
// enter and leave O(1); a first visit a few system calls. Blocks in caches of threads that a child has not are
// lost to the child, unless the front end can find them.
#pragma once

#include "heap/core/free_stack.hpp"
#include "heap/os/threads.hpp"

namespace heapyard {

// `Layers`, static members only: Front, `front()`, start() for what must be done before the first visit, and
// fork_prepare(), fork_parent(), fork_child(the forking thread's front end, or null).
template <class Layers>
class Process {
  using Front = typename Layers::Front;
  using Entry = typename Front::Entry;

 public:
  using Visit = typename Entry::Visit;

  // For a constructor of the library; harmless at any time.
  static void begin() {
    started_.run([] {
      Layers::start();
      hook_.create(at_thread_exit);
      os::at_fork(fork_prepare, fork_parent, fork_child);
    });
  }

  static Visit enter() {
    return Entry::enter(Entry::take(), [] {
      begin();
      auto* thread = Layers::front().start();
      if (thread != nullptr) hook_.arm();
      return thread;
    });
  }

  static void leave(const Visit& visit) { Entry::leave(visit); }

  // By a thread whose visit is `again`.
  static void put_aside(void* block) { aside_.push(block); }

  // Calls free(block) for a few of the blocks put aside.
  template <class Free>
  static void work_off(Free free) {
    if (!aside_.empty()) [[unlikely]]
      aside_.work_off(kWorkOff, free);
  }

 private:
  static constexpr unsigned kWorkOff = 8;  // blocks per slow path

  static void at_thread_exit(void*) {
    auto* thread = Entry::end();
    if (thread == nullptr) return;
    if (thread != &Front::Thread::nobody) Layers::front().stop(thread);
    Entry::ended();
  }

  // A fork in the middle of begin() may have the handlers registered twice: the inner pair does nothing.
  static void fork_prepare() {
    if (forks_++ != 0) return;
    forking_ = enter();
    if (!forking_.again) Layers::fork_prepare();
  }

  static void fork_parent() {
    if (--forks_ != 0 || forking_.again) return;
    const Visit visit = forking_;  // another thread may fork as soon as the locks are free
    Layers::fork_parent();
    Entry::leave(visit);
  }

  static void fork_child() {
    if (--forks_ != 0) return;
    aside_.reset();
    if (forking_.again) return;
    Layers::fork_child(forking_.thread);
    Entry::leave(forking_);
  }

  static inline constinit core::FreeStack aside_;
  static inline constinit os::ThreadExitHook hook_;
  static inline constinit os::OnceAcrossForks started_;
  static inline constinit int forks_ = 0;    // prepared and not done: of the thread that forks
  static inline constinit Visit forking_{};  // of the one thread that forks, between prepare and parent or child
};

}  // namespace heapyard
