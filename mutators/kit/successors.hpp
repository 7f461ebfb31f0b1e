// SPDX-License-Identifier: Apache-2.0
// Threads that take a worker's place one after the other: each lives for a part of the work and ends.
//
// What such a thread leaves on the heap outlives it. The next one starts when the one before has been joined, so that
// stacks are used again. The C library allocates a little for a new thread, in the measured phase too.
#pragma once

#include <pthread.h>

#include "base/fatal.hpp"
#include "worker.hpp"

namespace heapyard::kit {

class Successors {
 public:
  explicit Successors(std::size_t stack = 256 << 10) {
    pthread_attr_init(&attributes_);
    pthread_attr_setstacksize(&attributes_, stack);
  }
  Successors(const Successors&) = delete;
  Successors& operator=(const Successors&) = delete;
  ~Successors() { pthread_attr_destroy(&attributes_); }

  // Runs `body()` in a thread of its own and waits for its end. Exit 1 when the machine has no thread to give.
  template <class Body>
  void run(const Worker& worker, Body body) const {
    pthread_t thread;
    const auto live = [](void* untyped) -> void* {
      (*static_cast<Body*>(untyped))();
      return nullptr;
    };
    if (pthread_create(&thread, &attributes_, live, &body) != 0)
      fatal(kExitMachine, "cannot start a new thread in place of thread ", worker.index);
    pthread_join(thread, nullptr);
  }

 private:
  pthread_attr_t attributes_;
};

}  // namespace heapyard::kit
