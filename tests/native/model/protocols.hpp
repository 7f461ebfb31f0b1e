// SPDX-License-Identifier: Apache-2.0
// The protocols of the heaps that more than one thread enters, each at the size where faults show.
#pragma once

#include <string>
#include <vector>

#include "checker.hpp"
#include "heap/core/concurrency.hpp"

namespace heapyard::model {

struct Protocol {
  std::string name;  // plain words
  std::string file;  // whose orders it is about
  unsigned threads;
  bool quick;  // short enough for every run of the tests
  Program program;
  bool inserts = true;  // as Options has it
};
using Protocols = std::vector<Protocol>;

void add_stacks(Protocols& all);
void add_gate(Protocols& all);
void add_spans(Protocols& all);
void add_slabs(Protocols& all);

inline Protocols protocols() {
  Protocols all;
  add_gate(all);
  add_stacks(all);
  add_spans(all);
  add_slabs(all);
  return all;
}

// The heaps' own atomics, fences and waiting. Only a lock is one step here: heap/os/lock.hpp is a protocol of its own.
struct Checked : core::Concurrency {
  using Lock = model::Lock;
  static bool alone() { return false; }
};

// A thing that one thread has at a time: who has it writes it. Two at once are a race; two in turn are told.
class Held {
 public:
  void take() {
    check(!held_, "two threads have the same");
    held_ = true;
  }
  void give() {
    check(held_, "given back twice");
    held_ = false;
  }
  bool held() const { return held_; }

 private:
  bool held_ = false;
};

}  // namespace heapyard::model
