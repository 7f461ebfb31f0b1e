// SPDX-License-Identifier: Apache-2.0
// What HEAPYARD_CONF sets of a heap: "limit=512M,huge_pages=off". docs/allocator.md has the table.
//
// Cost: a search of the environment, once. Allocates nothing. What is wrong is said on standard error and left out. A
// program with more rights than its user gets no options.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "heap/os/pages.hpp"

namespace heapyard::abi {

struct Options {
  std::size_t limit = SIZE_MAX;  // bytes
  // SIZE_MAX: as the heap has it.
  std::size_t keep = SIZE_MAX;          // per cent of a peak that may stay beside it
  std::size_t thread_cache = SIZE_MAX;  // bytes of a thread's magazines
  bool huge_pages = true;
  bool statistics = false;

  // "64K", "512M", "2G", or bytes. False: it is none.
  static bool size(std::string_view text, std::size_t& value) {
    std::size_t digits = 0, sum = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {  // bound: the text
      const auto digit = static_cast<std::size_t>(text[digits] - '0');
      if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, digit, &sum)) return false;
    }
    const std::string_view unit = from(text, digits);
    const unsigned shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
    if (digits == 0 || (!unit.empty() && shift == 0) || sum > SIZE_MAX >> shift) return false;
    value = sum << shift;
    return true;
  }
  // Null, or what was expected; then nothing is set.
  const char* set(std::string_view name, std::string_view value) {
    constexpr const char* kSize = "a size is expected, such as 512M";
    std::size_t number = 0;
    const bool is_number = size(value, number), on = value == "on";
    if (name == "limit") return is_number && number != 0 ? (limit = number, nullptr) : kSize;
    if (name == "thread_cache") return is_number ? (thread_cache = number, nullptr) : kSize;
    if (name == "keep")
      return is_number && number <= 1000 ? (keep = number, nullptr) : "a percentage is expected, 0 to 1000";
    if (name == "huge_pages" || name == "statistics") {
      if (!on && value != "off") return "on or off is expected";
      (name == "statistics" ? statistics : huge_pages) = on;
      return nullptr;
    }
    return "the options are limit, thread_cache, keep, huge_pages and statistics";
  }

  static Options of_environment() {
    Options options;
    const char* all = environ == nullptr ? nullptr : secure_getenv("HEAPYARD_CONF");
    for (std::string_view rest = all == nullptr ? "" : all; !rest.empty();) {  // bound: its length
      const std::string_view one = before(rest, ',');
      rest = from(rest, one.size() + 1);
      const std::string_view name = before(one, '=');
      if (const char* wrong = options.set(name, from(one, name.size() + 1))) complain(one, wrong);
    }
    return options;
  }

 private:
  // Not by substr(), which may throw: the heap has no run-time library of C++.
  static std::string_view from(std::string_view text, std::size_t at) {
    text.remove_prefix(at < text.size() ? at : text.size());
    return text;
  }
  static std::string_view before(std::string_view text, char mark) {
    const std::size_t at = text.find(mark);
    return at == text.npos ? text : std::string_view(text.data(), at);
  }

  static void complain(std::string_view one, const char* wrong) {
    const os::KeepErrno keep;
    char line[256];
    const int shown = one.size() < 80 ? static_cast<int>(one.size()) : 80;
    const int length =
        std::snprintf(line, sizeof line, "heapyard: HEAPYARD_CONF: '%.*s' is left out: %s\n", shown, one.data(), wrong);
    syscall(SYS_write, STDERR_FILENO, line, length);
  }
};

}  // namespace heapyard::abi
