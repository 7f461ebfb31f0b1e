// SPDX-License-Identifier: Apache-2.0
#include "base/options.hpp"

#include <getopt.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/fatal.hpp"
#include "base/text.hpp"

namespace heapyard {
namespace {

constexpr int kLongOnly = 1000;  // getopt value of option i without a letter: kLongOnly + i
constexpr std::size_t kMost = 96;

bool takes_argument(const Option& option) {
  if (const auto* ignored = std::get_if<Ignored>(&option.kind)) return ignored->argument;
  return !std::holds_alternative<Flag>(option.kind);
}

void print_default(Text& text, const Option& option) {
  if (const auto* whole = std::get_if<Whole>(&option.kind)) {
    text << " [" << whole->low << ".." << whole->high << ", default " << *whole->target << ']';
  } else if (const auto* word = std::get_if<Word>(&option.kind)) {
    if (!word->choices.empty()) text << " [" << word->choices << ']';
    if (*word->target && **word->target) text << " [default " << *word->target << ']';
  }
}

// Folds `about` into lines of at most 80 columns, indented to `column`.
void print_folded(Text& text, std::string_view about, std::size_t column) {
  std::size_t at = column;
  while (!about.empty()) {  // bound: words of the text
    const std::size_t space = about.find(' ');
    const std::string_view word = about.substr(0, space);
    if (at > column && at + 1 + word.size() > 80) {
      text << '\n';
      text.pad_to(column);
      at = column;
    } else if (at > column) {
      text << ' ';
      ++at;
    }
    text << word;
    at += word.size();
    about.remove_prefix(space == std::string_view::npos ? about.size() : space + 1);
  }
  text << '\n';
}

[[noreturn]] void print_help(std::span<const Option> options, const Usage& usage) {
  Text text;
  text << "Usage: " << usage.program << " [OPTIONS]\n\n";
  print_folded(text, usage.summary, 0);
  text << "\nOptions:\n";
  for (const Option& option : options) {
    if (std::holds_alternative<Ignored>(option.kind)) continue;
    text << "  ";
    if (option.letter) text << '-' << option.letter << ", ";
    text << "--" << option.name;
    if (*option.argument) text << ' ' << option.argument;
    text << "\n      ";
    Text about;
    about << option.about;
    print_default(about, option);
    print_folded(text, about.view(), 6);
  }
  text << "  -h, --help\n      Show this and exit.\n";
  if (*usage.examples) text << "\nExamples:\n" << usage.examples;
  std::exit(text.write_to(STDOUT_FILENO) ? 0 : kExitMachine);
}

// `label` names the option or argument in a sentence.
[[noreturn]] void refuse(std::string_view label, std::string_view given, std::string_view wanted) {
  complain(label, " must be ", wanted, ", not '", given, "'");
  std::exit(kExitUsage);
}

void set_whole(std::string_view label, const Whole& whole, std::string_view given) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  std::string_view rest(end, static_cast<std::size_t>(given.data() + given.size() - end));
  bool fits = error == std::errc{};
  if (fits && whole.sizes && !rest.empty()) {
    const std::string_view units = "BKMG";
    const std::size_t unit = units.find(rest.front());
    if (unit != std::string_view::npos && rest.size() == 1) {
      const std::int64_t factor = std::int64_t{1} << (10 * unit);
      fits = value <= whole.high / factor;
      value *= fits ? factor : 1;
      rest = {};
    }
  }
  if (fits && rest.empty() && value >= whole.low && value <= whole.high) {
    *whole.target = value;
    return;
  }
  Text wanted;
  wanted << "a whole number from " << whole.low << " to " << whole.high;
  refuse(label, given, wanted.view());
}

void set_word(std::string_view label, const Word& word, const char* given) {
  std::string_view choices = word.choices;
  bool known = choices.empty();
  while (!known && !choices.empty()) {
    const std::size_t bar = choices.find('|');
    known = choices.substr(0, bar) == given;
    choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
  }
  if (!known) {
    Text wanted;
    wanted << "one of " << word.choices;
    refuse(label, given, wanted.view());
  }
  *word.target = given;
}

}  // namespace

int parse_options(int argc, char** argv, std::span<const Option> options, const Usage& usage, OnOption on_option,
                  void* context) {
  program_name = usage.program;
  char letters[2 * kMost + 4] = ":h";
  option longs[kMost + 2] = {};
  std::size_t at = 2;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const Option& entry = options[i];
    longs[i] = {entry.name, takes_argument(entry) ? required_argument : no_argument, nullptr,
                entry.letter ? entry.letter : kLongOnly + static_cast<int>(i)};
    if (!entry.letter) continue;
    letters[at++] = entry.letter;
    if (takes_argument(entry)) letters[at++] = ':';
  }
  letters[at] = 0;
  longs[options.size()] = {"help", no_argument, nullptr, 'h'};

  opterr = 0;
  for (;;) {  // bound: words of the command line
    const int word_at = optind;
    const int found = getopt_long(argc, argv, letters, longs, nullptr);
    if (found == -1) break;
    const char* word = argv[word_at < argc ? word_at : argc - 1];
    if (found == 'h') print_help(options, usage);
    if (found == ':') fatal(kExitUsage, "option ", std::string_view(word), " needs an argument; see --help");
    if (found == '?') fatal(kExitUsage, "there is no option ", std::string_view(word), "; see --help");
    const Option* entry = nullptr;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (found == (options[i].letter ? options[i].letter : kLongOnly + static_cast<int>(i))) entry = &options[i];
    }
    Text label;
    label << "option --" << entry->name;
    if (entry->letter) label << " (-" << entry->letter << ')';
    if (const auto* whole = std::get_if<Whole>(&entry->kind)) set_whole(label.view(), *whole, optarg);
    if (const auto* flag = std::get_if<Flag>(&entry->kind)) *flag->target = flag->value;
    if (const auto* text = std::get_if<Word>(&entry->kind)) set_word(label.view(), *text, optarg);
    if (on_option) on_option(*entry, context);
  }
  return optind;
}

void check_range(std::string_view what, std::int64_t low, std::int64_t high) {
  if (low > high) fatal(kExitUsage, "the minimum ", what, " ", low, " is larger than the maximum ", what, " ", high);
}

void parse_positionals(int argc, char** argv, int first, std::span<const Positional> table) {
  std::size_t at = 0;
  const bool apart = first < argc && std::strchr(argv[first], '_');
  for (int i = first; i < argc; ++i) {  // bound: words of the command line
    std::string_view rest = argv[i];
    do {
      while (apart && at < table.size() && table[at].apart) ++at;
      if (at == table.size()) fatal(kExitUsage, "there is no argument for '", rest, "'; see --help");
      const std::size_t bar = rest.find('_');
      Text label;
      label << "argument " << table[at].name;
      set_whole(label.view(), table[at].kind, rest.substr(0, bar));
      ++at;
      rest.remove_prefix(bar == std::string_view::npos ? rest.size() : bar + 1);
    } while (!rest.empty());
  }
}

}  // namespace heapyard
