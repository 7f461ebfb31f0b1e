// SPDX-License-Identifier: Apache-2.0
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "case.hpp"

namespace heapyard::check {
namespace {

void print_string(const char* text) {
  std::putchar('"');
  for (; *text; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    if (byte == '"' || byte == '\\')
      std::printf("\\%c", byte);
    else if (byte < 0x20)
      std::printf("\\u%04x", byte);
    else
      std::putchar(byte);
  }
  std::putchar('"');
}

}  // namespace

void Report::fact(const char* name, double value, const char* unit) {
  if (count_ == std::size(facts_)) return;
  Fact& fact = facts_[count_++];
  std::snprintf(fact.name, sizeof fact.name, "%s", name);
  fact.value = value;
  fact.unit = unit;
}

void Report::fact(const char* name, const char* words) {
  fact(name, 0, nullptr);
  std::snprintf(facts_[count_ - 1].words, sizeof facts_[0].words, "%s", words);
}

void Report::say(const char* format, va_list arguments) { std::vsnprintf(said_, sizeof said_, format, arguments); }

void Report::fail(const char* format, ...) {
  if (failed_) return;
  failed_ = true;
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void Report::note(const char* format, ...) {
  if (failed_ || noted_) return;
  noted_ = true;
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void Report::skip(const char* format, ...) {
  if (failed_ || noted_) return;
  skipped_ = true;
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

int Report::finish() const {
  const char* verdict = failed_ ? "fail" : noted_ ? "note" : skipped_ ? "skipped" : "pass";
  std::printf("{\"verdict\": \"%s\", \"said\": ", verdict);
  print_string(said_);
  std::printf(", \"facts\": {");
  for (std::size_t i = 0; i < count_; ++i) {
    std::printf("%s\"%s\": ", i ? ", " : "", facts_[i].name);
    if (facts_[i].unit)
      std::printf("[%.6g, \"%s\"]", facts_[i].value, facts_[i].unit);
    else
      print_string(facts_[i].words);
  }
  std::printf("}}\n");
  std::fflush(stdout);
  return failed_ ? 1 : 0;
}

}  // namespace heapyard::check
