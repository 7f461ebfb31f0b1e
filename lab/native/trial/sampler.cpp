// SPDX-License-Identifier: Apache-2.0
#include "sampler.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/clock.hpp"
#include "proc_file.hpp"
#include "process_tree.hpp"

namespace heapyard::trial {
namespace {

// A look may come again after so many times what it cost: 0.67 % of the time for RSS, 0.33 % for PSS and mappings.
constexpr std::uint64_t kCheapThrift = 150;
constexpr std::uint64_t kDearThrift = 300;
constexpr std::uint32_t kDoubt = 16;   // looks at which a library not yet mapped is looked for; then at dear ones only
constexpr double kDearInterval = 0.1;  // seconds between looks at PSS and mappings, if they are cheap enough

// Time this thread has worked. On a busy machine a look may wait for its turn: that costs the program nothing, and must
// not make looks rare.
std::uint64_t worked_ns() { return thread_cpu_ns(); }

// What one look at a process costs least to know.
struct Glance {
  std::string_view name;
  std::int64_t rss = 0;     // bytes; 0: gone, or a zombie
  std::uint64_t stack = 0;  // where its stack begins, which exec chooses anew; 0 where we may not know
};

// From /proc/<pid>/stat: `pid (name) state ...`, where the name may hold anything.
Glance glance(pid_t pid, char* text, std::size_t size) {
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  constexpr int kRss = 24, kStartOfStack = 28;  // numbers of the fields, as proc(5) counts them
  if (!read_proc(pid, "stat", text, size)) return {};
  const char* const open = std::strchr(text, '(');
  const char* at = std::strrchr(text, ')');
  if (!open || !at) return {};
  Glance found{{open + 1, static_cast<std::size_t>(at - open - 1)}};
  for (int field = 3; field <= kStartOfStack; ++field) {
    at = std::strchr(at + 1, ' ');
    if (!at) return {};
    if (field == kRss) found.rss = std::atoll(at + 1) * page;
    if (field == kStartOfStack) found.stack = std::strtoull(at + 1, nullptr, 10);
  }
  return found;
}

// 0 when the process is gone, -1 when we may not look: another user's, or one that forbids it.
std::int64_t proportional_bytes(pid_t pid) {
  char text[4096];
  errno = 0;
  if (!read_proc(pid, "smaps_rollup", text, sizeof text)) return errno == EACCES || errno == EPERM ? -1 : 0;
  const char* line = std::strstr(text, "\nPss:");
  return line ? std::atoll(line + 5) * 1024 : 0;
}

// A line of maps names `path` if it ends with it as a whole: "/lib/libfoo.so" is not "/usr/lib/libfoo.so".
bool line_names(std::string_view line, std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (line.ends_with(kDeleted)) line.remove_suffix(kDeleted.size());
  return line.size() > path.size() && line.ends_with(path) && line[line.size() - path.size() - 1] == ' ';
}

// Of a C library, which the loader maps after what is preloaded.
bool line_names_libc(std::string_view line) {
  const std::string_view name = line.substr(line.rfind('/') + 1);
  return name.starts_with("libc.so") || name.starts_with("libc-2.") || name.starts_with("ld-musl");
}

std::string executable_of(pid_t pid) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/%d/exe", pid);
  const ssize_t length = readlink(link, path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

Process& Sampler::process(pid_t pid, std::uint64_t stack) {
  for (Process& known : processes_) {
    if (known.pid != pid || !known.alive) continue;
    if (known.stack == stack || stack == 0) return known;  // 0: in the middle of exec, or closed to us
    if (known.stack == 0) {
      known.stack = stack;
      known.executable = executable_of(pid);
      return known;
    }
    known.alive = false;
  }
  Process& found = processes_.emplace_back();
  found.pid = pid;
  found.stack = stack;
  found.executable = executable_of(pid);
  found.first_seen_ns = monotonic_ns();
  return found;
}

void Sampler::look_at_maps(Process& process) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/maps", process.pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  // By pieces: an allocator with guard pages has tens of thousands of lines, and the libraries come last.
  char text[16384];
  std::size_t kept = 0;  // bytes of a line whose end is not read yet
  std::uint32_t lines = 0;
  bool mapped = false, has_libc = false;
  for (ssize_t got; (got = read(file, text + kept, sizeof text - kept)) > 0;) {
    const char* line = text;
    const char* const end = text + kept + got;
    while (const void* stop = std::memchr(line, '\n', static_cast<std::size_t>(end - line))) {
      const std::string_view whole(line, static_cast<std::size_t>(static_cast<const char*>(stop) - line));
      mapped = mapped || (request_.library && line_names(whole, request_.library));
      has_libc = has_libc || line_names_libc(whole);
      line += whole.size() + 1;
      ++lines;
    }
    kept = static_cast<std::size_t>(end - line);
    if (kept == sizeof text) kept = 0;  // longer than any path: not a line we look for
    std::memmove(text, line, kept);
  }
  close(file);
  if (lines == 0) return;  // gone meanwhile
  process.maps_seen_ns = monotonic_ns();
  process.maps = std::max(process.maps, lines);
  process.mapped = process.mapped || mapped;
  process.has_libc = process.has_libc || has_libc;
}

void Sampler::look(std::uint64_t start) {
  const std::uint64_t work_start = worked_ns();
  pids_.clear();
  descendants(getpid(), pids_);
  for (Process& known : processes_) known.alive = std::find(pids_.begin(), pids_.end(), known.pid) != pids_.end();

  Sample sample{static_cast<double>(start - exec_ns_) * 1e-9, 0, -1};
  charge_.begin_look();
  for (const pid_t pid : pids_) {
    char text[1024];
    const Glance now = glance(pid, text, sizeof text);
    Holding holding;
    if (now.rss == 0 || !holding_of(pid, holding)) continue;
    Process& seen = process(pid, now.stack);
    charge_.add(holding, seen.holding);
    seen.holding = holding;
    if (seen.name != now.name) seen.name = now.name;
    ++seen.looks;
    seen.peak_rss = std::max(seen.peak_rss, now.rss);
    sample.rss += now.rss;
    // The loader needs a moment: what is not mapped at the first look may be at the next.
    const bool in_doubt = request_.library && !seen.mapped && seen.looks < kDoubt;
    if (seen.looks == 2 || (seen.looks > 2 && in_doubt)) look_at_maps(seen);
  }
  charge_.end_look();
  group_.look();
  const std::uint64_t cheap = worked_ns() - work_start;

  if (start >= next_dear_ns_) {
    sample.pss = 0;
    for (const pid_t pid : pids_) {
      const std::int64_t bytes = proportional_bytes(pid);
      sample.pss = bytes < 0 || sample.pss < 0 ? -1 : sample.pss + bytes;  // a sum with a hole is no sum
    }
    for (Process& known : processes_) {
      if (known.alive) look_at_maps(known);
    }
    const std::uint64_t dear = worked_ns() - work_start - cheap;
    dear_ramp_ = std::min(dear_ramp_ * 2, kDearInterval);
    next_dear_ns_ = start + std::max(static_cast<std::uint64_t>(dear_ramp_ * 1e9), dear * kDearThrift);
  }
  if (sample.pss == 0) sample.pss = -1;  // gone between the two
  // A process that is ending has given back its memory before it is gone: nothing to see, not zero bytes.
  if (sample.rss > 0) samples_.push_back(sample);

  cost_ns_ += worked_ns() - work_start;
  ramp_ = std::min(ramp_ * 2, request_.interval);
  next_ns_ = start + std::max(static_cast<std::uint64_t>(ramp_ * 1e9), cheap * kCheapThrift);
}

}  // namespace heapyard::trial
