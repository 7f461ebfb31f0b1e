// SPDX-License-Identifier: Apache-2.0
// Where a thread must not be when it is made to call dlopen and malloc: in what might hold a lock that they take.
//
// These are the dynamic linker, every library that brings a malloc, what surrounds malloc in the C library or the
// program, and the functions of the C library that take the same locks: fork, thread creation, exit, changes of user,
// and more. A thread whose whole chain lies in the C library (one that is just beginning or ending) may hold any of
// them. The C library's internal functions have no names, but each is called from one that has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/injector/call_chain.hpp"
#include "tracer/injector/loaded_object.hpp"

namespace heapyard::injector {

class UnsafePlaces {
 public:
  // `program`: the path of the process's executable.
  UnsafePlaces(const std::vector<LoadedObject>& objects, const std::string& program);

  // What is unsafe about it, in words, or null. O(frames x ranges).
  const char* why_unsafe(const CallChain& chain) const;

 private:
  struct Place {
    Range range;
    const char* why;
  };
  std::vector<Place> unsafe_;
  std::vector<Range> system_;  // the C library and the dynamic linker
};

}  // namespace heapyard::injector
