// SPDX-License-Identifier: Apache-2.0
// The threads of one run and their barrier. Thread 0 is the main thread, so that a run of one is a program with one
// thread. Nothing is pinned. O(threads) to start; what it remembers lies in an arena.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "arena.hpp"
#include "base/fatal.hpp"

namespace heapyard::kit {

class Threads {
 public:
  using Body = void (*)(void* context, std::size_t index);

  static constexpr std::size_t bytes(std::size_t count) {
    return count * (sizeof(Start) + sizeof(pthread_t)) + 2 * kCacheLine;
  }

  void prepare(Arena& arena, std::size_t count) {
    count_ = count;
    starts_ = arena.take<Start>(count);
    handles_ = arena.take<pthread_t>(count);
    if (pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(count)) != 0)
      fatal(kExitMachine, "cannot make a barrier");
  }

  // Runs body(context, index) on all threads, and returns when all have ended.
  void run(Body body, void* context) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStack);
    for (std::size_t i = 0; i < count_; ++i) {
      starts_[i] = {body, context, i};
      if (i > 0 && pthread_create(&handles_[i], &attributes, enter, &starts_[i]) != 0)
        fatal(kExitMachine, "cannot start thread ", i, " of ", count_);
    }
    enter(&starts_[0]);
    for (std::size_t i = 1; i < count_; ++i) pthread_join(handles_[i], nullptr);
  }

  // All threads leave together.
  void wait_for_all() { pthread_barrier_wait(&barrier_); }

  std::size_t count() const { return count_; }

 private:
  static constexpr std::size_t kStack = 1 << 20;  // what the deepest malloc needs is the larger part

  struct Start {
    Body body;
    void* context;
    std::size_t index;
  };
  static void* enter(void* start) {
    const Start& own = *static_cast<const Start*>(start);
    own.body(own.context, own.index);
    return nullptr;
  }

  std::size_t count_ = 0;
  Start* starts_ = nullptr;
  pthread_t* handles_ = nullptr;
  pthread_barrier_t barrier_;
};

}  // namespace heapyard::kit
