// SPDX-License-Identifier: Apache-2.0
// Runs a few threads' worth of real code under every interleaving, and every result that weak memory allows.
//
// Idea: the code under test is compiled with -fsanitize=thread, but linked with hooks of ours (hooks.cpp) instead of
// the sanitizer's run time. So each atomic access, with its order, and each plain one comes here, from code as it is.
// Each thread is a fiber that stops before an atomic access. A depth-first search picks which thread goes on, and which
// of the stores in memory.hpp its access reads. Of executions that differ only in the order of accesses that do not
// depend on each other one is enough. Dynamic partial-order reduction (Flanagan and Godefroid, POPL 2005) finds where a
// thread must come earlier; sleep sets (Godefroid, 1996) leave out what a sibling had. litmus_test.cpp holds both
// against a search without them. Cost: each execution begins anew, some microseconds for a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <compare>
#include <string>
#include <vector>

#include "operation.hpp"

namespace heapyard::model {

// `program(bodies)` makes fresh state, gives the threads to run over it, and returns a last check of it, which says
// whether all was well.
using Bodies = std::vector<std::function<void()>>;
using Program = std::function<std::function<bool()>(Bodies&)>;

// What is asked of one place of the code: an order, by a kind of operation.
struct Site {
  std::uintptr_t at;
  Kind kind;
  bool on_failure;  // of a compare-and-swap: the order when it does not swap
  auto operator<=>(const Site&) const = default;
};
// The strongest order that each was seen with.
using Sites = std::map<Site, std::memory_order>;
// Sites that get another order than they ask for; a lock or a remote fence that is relaxed is none.
using Weakened = std::map<Site, std::memory_order>;

struct Options {
  bool reduces = true;           // else every interleaving of atomic accesses is run
  bool inserts = true;           // stores may come to lie before others in modification order
  unsigned preemptions = ~0u;    // at most so many, then; without reduction only
  std::size_t most = 1'000'000;  // executions
  Weakened weakened;
};

struct Outcome {
  std::size_t executions = 0;  // that came to an end, one for each that differs
  std::size_t pruned = 0;      // begun, and found to be like another
  std::size_t steps = 0;       // of the last execution
  bool complete = false;       // all were run
  std::string fault;           // of the last one; empty: none
  std::vector<std::string> schedule;
  Sites sites;
};

Outcome explore(const Program& program, const Options& options = {});

// For code under test. Ends the schedule: a rule is broken.
void fail(const char* why);
void check(bool well, const char* why);

// What membarrier(2) says from here on.
void kernel_has_membarrier(bool has);

// While it is in scope, nothing that its thread does is seen: for a test's own books.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

// A lock that is one step; what heap/os/lock.hpp is made of has a protocol of its own.
class Lock {
 public:
  void lock();
  void unlock();

 private:
  bool held_ = false;
};

}  // namespace heapyard::model
