// SPDX-License-Identifier: Apache-2.0
// The session that this process records into, as all of its threads see it.
//
// Idea: it begins at the first record (current_session.cpp), or when someone attaches (attach.cpp), and a forked child
// has one of its own (forked_child.cpp). Threads: any. There is no lock: one thread connects, and the others record
// nothing until it has; whatever else changes for all threads makes the session's activity another word. Signals: any.
// Cost: O(1), but for connecting.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/events/next_symbol.hpp"
#include "tracer/session/activity.hpp"
#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

inline constinit Activity no_activity;  // that no thread has taken

// How far this process has come with its collector.
enum class Connection : int {
  kNotYet,
  kConnecting,  // one thread is at it
  kConnected,
  kNobodyThere,  // there is no collector
};

struct CurrentSession {
  Session session;                          // changes only in connect() and after a fork
  const Activity* activity = &no_activity;  // the session's
  std::uint64_t start = 0;                  // stamp
  std::atomic<Connection> connection{Connection::kNotYet};
  std::atomic<std::uint32_t> sessions{0};  // so far
  bool with_python = false;                // samples of its objects; its functions where every event is recorded
  std::uint32_t first_log2_interval = 0;   // that the session begins with; 0 where nothing is sampled
  char wish[256] = {};                     // of whoever attached; empty: what the environment says
};
inline constinit CurrentSession current;  // here, so that its address is no load

// There is a session.
inline Header& shared() { return current.session.header(); }
inline Mode mode() { return shared().mode.load(std::memory_order_relaxed); }
inline std::uint64_t since_start() { return stamp() - current.start; }

// Nothing is recorded from now on: the collector has gone.
void stop();

// Begins a session if there is a collector and no other thread is at it. True: there is one now. System calls.
[[gnu::cold]] bool connect();
// True once there is a session.
inline bool connected() {
  return current.connection.load(std::memory_order_acquire) == Connection::kConnected || connect();
}

// Bytes that a thread allocates before it asks again whether anything is to be recorded. Where this library was loaded
// late, nobody comes by here then, and the next session begins at once.
inline std::uint64_t until_asked_again() { return loaded_late() ? 0 : 1 << 20; }

}  // namespace heapyard::tracer
