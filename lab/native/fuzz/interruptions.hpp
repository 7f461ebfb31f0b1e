// SPDX-License-Identifier: Apache-2.0
// Signals that come at any instruction of a thread, and keep it there for a while.
//
// Idea: two threads meet in the middle of a protocol once in many millions of calls. A thread that is stopped there for
// some time is met by others. So its handler yields, or sleeps. It also interrupts what the heap asks of the kernel.
// Threads: each its own timer, which ends with it. Cost: a signal each 0.1 to 1 ms of a thread's time.
#pragma once

#include <cstdint>

namespace heapyard::fuzz {

void take_interruptions();

class Interruptions {
 public:
  // Of this thread, from now on. Without a timer that the system may give, there are none.
  explicit Interruptions(std::uint64_t seed);
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  void* timer_ = nullptr;
  bool there_ = false;
};

}  // namespace heapyard::fuzz
