// SPDX-License-Identifier: Apache-2.0
#include "operation.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>

#include "base/fatal.hpp"
#include "base/mapping.hpp"

namespace heapyard::fuzz {
namespace {

// The next word of a line, without it then.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

bool next_number(std::string_view& line, std::uint64_t most, std::uint64_t& number) {
  const std::string_view word = next_word(line);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return !word.empty() && error == std::errc{} && end == word.data() + word.size() && number <= most;
}

// What is no legal call of the interface would find faults in every library, and what has no bound would never end.
bool is_legal(const Operation& operation) {
  switch (operation.call) {
    case Call::kAlignedAlloc:
    case Call::kPosixMemalign:
    case Call::kMemalign:
    case Call::kNewAligned:
    case Call::kNewArrayAligned:
      return std::has_single_bit(operation.other) &&
             (operation.call != Call::kPosixMemalign || operation.other >= sizeof(void*));
    case Call::kGive:
      return operation.other < kMailboxes;
    case Call::kFork:
      return operation.size <= kMostInChild;
    case Call::kForkLimited:
      return operation.size <= kMostMebibytes;
    default:
      return true;
  }
}

bool parse(std::string_view line, Operation& operation) {
  std::uint64_t thread = 0, slot = 0;
  if (!next_number(line, kMostThreads - 1, thread)) return false;
  const auto* const call = std::find(std::begin(kCalls), std::end(kCalls), next_word(line));
  if (call == std::end(kCalls) || !next_number(line, kSlots - 1, slot) || !next_number(line, ~0ull, operation.size) ||
      !next_number(line, ~0ull, operation.other) || !next_word(line).empty())
    return false;
  operation.thread = static_cast<std::uint8_t>(thread);
  operation.slot = static_cast<std::uint16_t>(slot);
  operation.call = static_cast<Call>(call - std::begin(kCalls));
  return is_legal(operation);
}

}  // namespace

void write_operation(Text& text, const Operation& operation) {
  text << unsigned{operation.thread} << ' ' << kCalls[static_cast<std::size_t>(operation.call)] << ' ' << operation.slot
       << ' ' << operation.size << ' ' << operation.other << '\n';
}

std::size_t most_operations(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

Parsed parse_operations(std::string_view text, Operation* operations) {
  std::size_t count = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(' ') == line.npos || line[0] == '#') continue;
    if (!parse(line, operations[count])) return {count, number};
    ++count;
  }
  return {count, 0};
}

std::span<const Operation> read_operations(const char* path) {
  const std::string_view name(path);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts{};
  if (file < 0 || fstat(file, &facts) != 0) fatal(kExitUsage, "cannot read ", name);
  if (!S_ISREG(facts.st_mode)) fatal(kExitUsage, name, " is not a file");
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  if (bytes == 0) return {};
  auto* const text = static_cast<char*>(map_private(bytes));
  if (text == nullptr) fatal(kExitMachine, "no memory for ", name);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::read(file, text + done, bytes - done);
    if (got <= 0) fatal(kExitUsage, "cannot read ", name);
    done += static_cast<std::size_t>(got);
  }
  close(file);
  const std::string_view all(text, bytes);
  auto* const operations = static_cast<Operation*>(map_private(most_operations(all) * sizeof(Operation)));
  if (operations == nullptr) fatal(kExitMachine, "no memory for the operations of ", name);
  const Parsed parsed = parse_operations(all, operations);
  if (parsed.wrong_line != 0) fatal(kExitUsage, name, ", line ", parsed.wrong_line, ": this is no operation");
  return {operations, parsed.count};
}

}  // namespace heapyard::fuzz
