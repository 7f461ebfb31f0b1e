// SPDX-License-Identifier: Apache-2.0
#include "pattern.hpp"

#include <charconv>

#include "base/fatal.hpp"
#include "base/options.hpp"

namespace heapyard::patterns {
namespace {

constexpr const char* kAll[] = {
    "fifo:13",      "fifo:111",    "lifo:13",      "lifo:111",     "alt:7,17",     "alt:17,176",   "alt:93,192",
    "m8:1-N/128",   "m8:67-N/128", "m10:1-N/128",  "m10:67-N/128", "m12:1-N/128",  "m12:67-N/128", "m14:1-N/128",
    "m14:67-N/128", "m16:1-N/128", "m16:67-N/128", "m18:1-N/128",  "m18:67-N/128", "r:1-63",       "r:64-2023",
    "r:1024-2048",  "r:1000",      "r:700-1000",   "ma:1-250",     "mb:1-90",      "mb:1-10000",   "mb:1-20000",
};

struct Grouping {
  std::string_view name;
  Order middle, last;
};
constexpr Grouping kGroupings[] = {
    {"m8", Order::kEven, Order::kStride4},         {"m10", Order::kEvenBackward, Order::kDescending},
    {"m12", Order::kAscending, Order::kAscending}, {"m14", Order::kRuns, Order::kRuns},
    {"m16", Order::kRandom, Order::kRandom},       {"m18", Order::kEnds, Order::kAscending},
    {"ma", Order::kEvenBackward, Order::kStride4}, {"mb", Order::kEven, Order::kDescending},
};

// Largest block of a pattern: 8 MiB.
constexpr std::uint32_t kMostWords = 1 << 20;

[[noreturn]] void not_a_pattern(std::string_view notation) {
  fatal(kExitUsage, "argument PATTERN: '", notation,
        "' is no pattern; --list shows the report's, as fifo:13, alt:7,17, m8:1-N/128, r:64-2023, ma:1-250");
}

// Takes a number of words off the front of `text`.
bool number(std::string_view& text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value > kMostWords) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

}  // namespace

std::span<const char* const> all_patterns() { return kAll; }

Pattern read_pattern(std::string_view notation) {
  std::string_view text = notation;
  std::uint32_t index = 0;
  if (number(text, index) && text.empty()) {
    if (index < 1 || index > std::size(kAll)) not_a_pattern(notation);
    return read_pattern(kAll[index - 1]);
  }
  const std::size_t colon = notation.find(':');
  if (colon == std::string_view::npos) not_a_pattern(notation);
  const std::string_view name = notation.substr(0, colon);
  text = notation.substr(colon + 1);
  Pattern p{Sizes::kTurns, 0, 0, 0, Order::kNone, Order::kAscending};
  if (!number(text, p.low)) not_a_pattern(notation);
  p.high = p.low;
  if (name == "fifo" || name == "lifo") {
    if (name == "lifo") p.last = Order::kDescending;
  } else if (name == "alt") {
    p.last = Order::kTurns;
    if (!take(text, ",") || !number(text, p.high)) not_a_pattern(notation);
  } else if (name == "r") {
    p.sizes = Sizes::kRandom;
    p.last = Order::kRandom;
    if (take(text, "-") && !number(text, p.high)) not_a_pattern(notation);
  } else {
    const Grouping* found = nullptr;
    for (const Grouping& grouping : kGroupings) {
      if (grouping.name == name) found = &grouping;
    }
    if (found == nullptr || !take(text, "-")) not_a_pattern(notation);
    p.sizes = Sizes::kSteps;
    p.middle = found->middle;
    p.last = found->last;
    if (name == "ma" || name == "mb") {
      if (!number(text, p.wrap) || p.wrap == 0) not_a_pattern(notation);
    } else if (!take(text, "N/128")) {
      not_a_pattern(notation);
    }
  }
  if (!text.empty() || p.high < p.low) not_a_pattern(notation);
  return p;
}

}  // namespace heapyard::patterns
