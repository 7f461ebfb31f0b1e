// SPDX-License-Identifier: Apache-2.0
#include "operation.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
  return operation.call != Call::kGive || operation.other < kMailboxes;
}

}  // namespace

void write_operation(Text& text, const Operation& operation) {
  text << unsigned{operation.thread} << ' ' << kCalls[static_cast<std::size_t>(operation.call)] << ' ' << operation.slot
       << ' ' << operation.size << ' ' << operation.other << '\n';
}

std::span<const Operation> read_operations(const char* path) {
  const std::string_view name(path);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts{};
  if (file < 0 || fstat(file, &facts) != 0) fatal(kExitUsage, "cannot read ", name);
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
  std::string_view rest(text, bytes);
  const auto lines = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '\n')) + 1;
  auto* const operations = static_cast<Operation*>(map_private(lines * sizeof(Operation)));
  if (operations == nullptr) fatal(kExitMachine, "no memory for the operations of ", name);
  std::size_t count = 0;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty() || line[0] == '#') continue;
    if (!parse(line, operations[count++])) fatal(kExitUsage, name, ", line ", number, ": this is no operation");
  }
  return {operations, count};
}

}  // namespace heapyard::fuzz
