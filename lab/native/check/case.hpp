// SPDX-License-Identifier: Apache-2.0
// One case of `heapyard check`: a program of its own, so that a crash or a hang is a result and does not end the check.
//
// A case reports what it found through Report and returns; main() prints one JSON object. Verdicts: pass; fail, with
// one sentence; note, for what the standards allow and some programs cannot bear; skipped, where this machine does not
// permit the case. Facts are numbers with a unit, or words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heapyard::check {

class Report {
 public:
  void fact(const char* name, double value, const char* unit);
  void fact(const char* name, const char* words);
  // The first one stays; the case ends where it returns. printf's format.
  [[gnu::format(printf, 2, 3)]] void fail(const char* format, ...);
  [[gnu::format(printf, 2, 3)]] void note(const char* format, ...);
  // Not looked at, for this reason.
  [[gnu::format(printf, 2, 3)]] void skip(const char* format, ...);
  bool failed() const { return failed_; }

  // Prints the object and gives the exit code: 0, or 1 after a fail.
  int finish() const;

 private:
  struct Fact {
    char name[40];
    double value;
    const char* unit;  // null: words
    char words[96];
  };
  void say(const char* format, __builtin_va_list arguments);

  Fact facts_[64];
  std::size_t count_ = 0;
  char said_[400] = {};
  bool failed_ = false, noted_ = false, skipped_ = false;
};

// How much work: a first look, the usual, or what takes many minutes.
struct Amount {
  bool quick = false, deep = false;
  // `full`, or its part in a quick look.
  std::size_t of(std::size_t full, std::size_t quick_part) const { return quick ? full / quick_part : full; }
};

struct Case {
  const char* group;
  const char* name;
  const char* about;
  void (*run)(Report& report, Amount amount);
  // Where any outcome is information and none a fault: a crash is told, not held against the library.
  bool information = false;
  // "FILE=VALUE": the setting of the system that the case is about, which `--change-system` gives while it runs.
  const char* setting = "";
};

std::span<const Case> conformance_cases();
std::span<const Case> errno_cases();
std::span<const Case> cxx_cases();
std::span<const Case> process_cases();
std::span<const Case> forking_cases();
std::span<const Case> stress_cases();
std::span<const Case> storm_cases();
std::span<const Case> limit_cases();
std::span<const Case> share_cases();
std::span<const Case> memory_cases();
std::span<const Case> system_cases();
std::span<const Case> core_cases();
std::span<const Case> latency_cases();
std::span<const Case> detection_cases();

}  // namespace heapyard::check
