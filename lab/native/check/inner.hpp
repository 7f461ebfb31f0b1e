// SPDX-License-Identifier: Apache-2.0
// A program run by a case as a process of its own: under the library, or under glibc to compare with; with limits set
// before it starts; watched, so that neither time nor memory of the machine runs out.
#pragma once

#include <cstddef>
#include <span>

namespace heapyard::check {

// What an inner program tells while it runs; what it told stays when it is killed.
inline constexpr std::size_t kAnswers = 24;
struct Answers {
  volatile double values[kAnswers];
};

struct Inner {
  const char* name;
  int (*run)(Answers& answers, std::size_t argument);  // gives the exit code
};

enum class Under { kLibrary, kGlibc };

struct Wishes {
  Under under = Under::kLibrary;
  std::size_t argument = 0;
  void (*before_exec)() = nullptr;                   // in the new process: limits, privileges
  const char* emulator = nullptr;                    // runs the program, and gives the library to it alone
  unsigned seconds = 20;                             // then it is killed
  std::size_t most_resident = std::size_t{3} << 30;  // bytes; then it is killed
};

struct Ending {
  enum class How { kExited, kSignal, kTooLong, kTooLarge, kNotStarted } how = How::kNotStarted;
  int detail = 0;            // exit code or signal
  bool core = false;         // the signal left a core
  std::size_t resident = 0;  // most, in bytes
  double values[kAnswers] = {};

  bool well() const { return how == How::kExited && detail == 0; }
  // "dies of signal 11 (Segmentation fault)". Valid until the next call.
  const char* words() const;
};

// What this program runs under itself, or null: for another processor's programs, which the kernel does not start.
const char* own_emulator();

Ending run_inner(const char* name, const Wishes& wishes = {});

// For main(): what `check_heap --inner NAME FD ARGUMENT` does.
int be_inner(const char* name, const char* descriptor, const char* argument);

std::span<const Inner> share_inners();
std::span<const Inner> storm_inners();
std::span<const Inner> system_inners();
std::span<const Inner> core_inners();
std::span<const Inner> errno_inners();

}  // namespace heapyard::check
