// SPDX-License-Identifier: Apache-2.0
// Holds a thread's recording against what comes in between: signal handlers that allocate, and its own set-up.
//
// Idea: a thread is busy while it records. A signal handler that finds it so does not touch its ring: what it allocates
// is counted as lost, and what it frees in exact mode waits until the recording has ended, for else the address could
// come again before. Cost: O(1). Threads: each its own. Signals: this is what they meet; the fences keep the compiler
// from moving anything out of the recording.
#pragma once

#include <atomic>

#include "tracer/events/current_session.hpp"
#include "tracer/events/thread_state.hpp"

namespace heapyard::tracer {

// The frees that wait are recorded.
[[gnu::cold]] void write_pended(ThreadState& self);
// By a signal handler in the middle of a recording: its free is recorded after it. Lost, and counted, if too many wait.
void pend(ThreadState& self, Kind kind, const Owned& owned);

class Recording {
 public:
  explicit Recording(ThreadState& self) : self_(self), held_(self.busy == Busy::kNo) {
    if (held_) self.busy = Busy::kRecording;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Recording() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!held_) return;
    if (self_.pended != 0) [[unlikely]]
      write_pended(self_);
    self_.busy = Busy::kNo;
  }
  // False: this came in the middle of another; if of a recording, then by a signal, and it is lost.
  bool held() const {
    if (!held_ && self_.busy == Busy::kRecording && current.session)
      shared().lost.nested.fetch_add(1, std::memory_order_relaxed);
    return held_;
  }

 private:
  ThreadState& self_;
  const bool held_;
};

// For the short ways, which know that the thread is at_hand(), and have what waits recorded afterwards.
[[gnu::always_inline]] inline void begin_short_recording(ThreadState& self) {
  self.busy = Busy::kRecording;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
[[gnu::always_inline]] inline void end_short_recording(ThreadState& self) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  self.busy = Busy::kNo;
}

// What the thread allocates meanwhile is nobody's memory.
class SettingUp {
 public:
  SettingUp() : before_(this_thread.busy) { this_thread.busy = Busy::kSettingUp; }
  ~SettingUp() { this_thread.busy = before_; }

 private:
  const Busy before_;
};

}  // namespace heapyard::tracer
