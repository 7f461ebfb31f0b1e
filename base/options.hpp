// SPDX-License-Identifier: Apache-2.0
// Command-line options as one table: letter, long name, range, default and meaning stand in one line each.
//
// getopt_long reads the command line; this adds typed targets, range checks with one-sentence errors (exit 2) and help
// made from the table, so that help, check and default cannot disagree. No heap. O(options) per word.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

namespace heapyard {

// A whole number in [low, high]. `sizes` accepts K, M, G (binary) and B at the end: 256K, 10B.
struct Whole {
  std::int64_t* target;
  std::int64_t low, high;
  bool sizes = false;
};
struct Flag {
  bool* target;
  bool value = true;
};
struct Word {  // one of `choices`, separated by '|' ("list|tree"), or any text when empty
  const char** target;
  std::string_view choices = {};
};
struct Ignored {  // takes an argument (or none) that no longer means anything; kept so that old command lines run
  bool argument;
};

struct Option {
  char letter;           // 0: long only
  const char* name;      // without dashes
  const char* argument;  // shown in help; "" for flags
  std::variant<Whole, Flag, Word, Ignored> kind;
  const char* about;  // default is added from the target's value before parsing
};

struct Usage {
  const char* program;
  const char* summary;   // one or two sentences
  const char* examples;  // lines, each indented by two spaces
};

// Which of `choices` ("list|tree" as in a Word) `name` is, from 0, as an enumeration in the same order; it must be one.
template <class Enum>
constexpr Enum chosen(std::string_view choices, std::string_view name) {
  std::underlying_type_t<Enum> index = 0;
  for (std::size_t at = 0; choices.substr(at, choices.find('|', at) - at) != name; ++index)  // bound: the choices
    at = choices.find('|', at) + 1;
  return static_cast<Enum>(index);
}

// Exit 2 with one sentence unless low <= high; `what` is the thing that both are bounds of: "size".
void check_range(std::string_view what, std::int64_t low, std::int64_t high);

// Called for options that several targets depend on; may be null. `letter` as in the table (0 with `name` for long-only
// ones).
using OnOption = void (*)(const Option& option, void* context);

// Parses; on --help prints help to standard output and exits 0; on an error one sentence and exit 2.
// Returns the index of the first positional argument in argv.
int parse_options(int argc, char** argv, std::span<const Option> options, const Usage& usage,
                  OnOption on_option = nullptr, void* context = nullptr);

// A number without a name, as the original programs take them. `apart`: not part of a configuration in one word.
struct Positional {
  const char* name;
  Whole kind;
  bool apart = false;
};

// Reads argv[first..] into the table in order; fewer are fine, more are an error (exit 2). A word may hold several
// numbers joined by underscores (10000_100000_0_8, a published configuration); when the first does, entries that stand
// apart are left out. O(words).
void parse_positionals(int argc, char** argv, int first, std::span<const Positional> table);

}  // namespace heapyard
