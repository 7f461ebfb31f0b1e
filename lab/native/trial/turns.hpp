// SPDX-License-Identifier: Apache-2.0
// A trial's turns: when its program may run, for how long, and how much time it has had.
//
// Idea: the launchers of a block and the process that gives the turns (lab/native/slices) each hold one end of a socket
// pair. A launcher says once that it is ready. From then on each message to it is a length in nanoseconds, and each
// answer says that the slice is over and the program stands still. A side that closes its end has ended.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace heapyard::trial {

// The time of a program that runs in slices: it stands still while the program does.
class ProgramClock {
 public:
  // Nanoseconds; CLOCK_MONOTONIC less all pauses.
  std::uint64_t now_ns() const { return (paused_at_ != 0 ? paused_at_ : monotonic_ns()) - paused_; }
  std::uint64_t paused_ns() const { return paused_; }  // so far, a pause that lasts still apart
  void pause() { paused_at_ = monotonic_ns(); }
  void go_on() {
    if (paused_at_ != 0) paused_ += monotonic_ns() - paused_at_;
    paused_at_ = 0;
  }

 private:
  std::uint64_t paused_at_ = 0, paused_ = 0;
};

class Turns {
 public:
  // `socket`: our end, -1 where the program runs as it likes.
  explicit Turns(int socket) : socket_(socket) {}

  bool taken() const { return socket_ >= 0; }
  int socket() const { return socket_; }

  // Stands ready, or the slice is over. False: nobody gives turns any more.
  bool tell_done() const;
  // Length of the slice in nanoseconds, after a message has come; 0: nobody gives turns any more.
  std::uint64_t next() const;
  void leave();  // the others go on without it

 private:
  int socket_;
};

}  // namespace heapyard::trial
