// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <span>

#include "base/json.hpp"
#include "case.hpp"

namespace heapyard::check {
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
  // A case may have left no address space: all that is said fits.
  static char room[1 << 15];
  Text text{std::span<char>(room)};
  Json json(text);
  json.open('{').field("verdict", failed_ ? "fail" : noted_ ? "note" : skipped_ ? "skipped" : "pass");
  json.field("said", said_).key("facts").open('{');
  for (const Fact& fact : std::span(facts_, count_)) {
    json.key(fact.name);
    if (fact.unit)
      json.open('[').value(fact.value).value(fact.unit).close(']');
    else
      json.value(fact.words);
  }
  json.close('}').close('}');
  text << '\n';
  std::fflush(stdout);
  text.write_to(STDOUT_FILENO);
  return failed_ ? 1 : 0;
}

}  // namespace heapyard::check
