// SPDX-License-Identifier: Apache-2.0
#include "tracer/injector/stub_place.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace heapyard::injector {
namespace {

constexpr std::uint64_t kAlign = 16;
std::uint64_t bytes_of_stub() { return stub_bytes().size(); }

bool has_ended(pid_t process, pid_t thread) {
  return thread <= 0 || (syscall(SYS_tgkill, process, thread, 0) != 0 && errno == ESRCH);
}

}  // namespace

std::vector<Leftover> leftovers(const TargetProcess& process) {
  std::vector<Leftover> found;
  for (const Range& range : process.slack) {
    if (range.end < range.begin + bytes_of_stub()) continue;
    std::vector<unsigned char> bytes(range.end - range.begin);
    if (!process.memory.read(range.begin, bytes.data(), bytes.size())) continue;
    for (std::uint64_t at = 0; at + bytes_of_stub() <= bytes.size(); at += kAlign) {
      StubWords words;
      std::memcpy(&words, bytes.data() + at, sizeof words);
      if (words.magic == kStubMagic)
        found.push_back({{range.begin + at, range.begin + at + bytes_of_stub()}, static_cast<pid_t>(words.owner)});
    }
  }
  return found;
}

std::optional<Range> free_place(const TargetProcess& process) {
  for (const Range& range : process.slack) {
    if (range.end < range.begin + bytes_of_stub()) continue;
    std::vector<unsigned char> bytes(range.end - range.begin);
    if (!process.memory.read(range.begin, bytes.data(), bytes.size())) continue;
    for (std::uint64_t at = 0; at + bytes_of_stub() <= bytes.size(); at += kAlign) {
      const auto begin = bytes.begin() + static_cast<long>(at), end = begin + static_cast<long>(bytes_of_stub());
      if (std::all_of(begin, end, [](unsigned char byte) { return byte == 0; }))
        return Range{range.begin + at, range.begin + at + bytes_of_stub()};
    }
  }
  return {};
}

// The magic word comes first and goes last: whatever there is of a stub can be recognised.
bool write_stub(pid_t thread, Range place, const StubWords& words) {
  std::vector<unsigned char> bytes(stub_bytes().begin(), stub_bytes().end());
  std::memcpy(bytes.data(), &words, sizeof words);
  const std::span<const unsigned char> all(bytes);
  return ProcessMemory::write_text(thread, place.begin, all.first(8)) &&
         ProcessMemory::write_text(thread, place.begin + 8, all.subspan(8));
}

bool clear_stub(pid_t thread, Range place) {
  const std::vector<unsigned char> zeros(place.end - place.begin);
  const std::span<const unsigned char> all(zeros);
  return ProcessMemory::write_text(thread, place.begin + 8, all.subspan(8)) &&
         ProcessMemory::write_text(thread, place.begin, all.first(8));
}

bool clear_leftovers(const TargetProcess& process, pid_t held, const CallChain& chain) {
  for (const Leftover& each : leftovers(process)) {
    if (each.owner == held) {
      for (const std::uint64_t frame : chain.frames)
        if (each.range.holds(frame)) return false;
      clear_stub(held, each.range);
    } else if (has_ended(process.pid, each.owner)) {
      clear_stub(held, each.range);
    }
  }
  return true;
}

}  // namespace heapyard::injector
