#include "sampler.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mutators/kit/cycle_clock.hpp"
#include "process_tree.hpp"

namespace heapyard::trial {
namespace {

// A look may come again after so many times what it cost: 0.67 % of the time for RSS, 0.33 % for PSS and mappings.
constexpr std::uint64_t kCheapThrift = 150;
constexpr std::uint64_t kDearThrift = 300;
constexpr double kDearInterval = 0.1;  // seconds between looks at PSS and mappings, if they are cheap enough

// Whole file into `text` (null-terminated); empty when the process is gone.
std::size_t read_proc(pid_t pid, const char* name, char* text, std::size_t size) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::size_t length = 0;
  for (ssize_t got; length + 1 < size && (got = read(file, text + length, size - 1 - length)) > 0;)
    length += static_cast<std::size_t>(got);
  close(file);
  text[length] = 0;
  return length;
}

std::int64_t resident_bytes(pid_t pid) {
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  char text[128];
  if (!read_proc(pid, "statm", text, sizeof text)) return 0;
  const char* second = std::strchr(text, ' ');
  return second ? std::atoll(second + 1) * page : 0;
}

std::int64_t proportional_bytes(pid_t pid) {
  char text[4096];
  if (!read_proc(pid, "smaps_rollup", text, sizeof text)) return 0;
  const char* line = std::strstr(text, "\nPss:");
  return line ? std::atoll(line + 5) * 1024 : 0;
}

// Two microseconds, and after an exec the only thing that shows at once that the process is another program now.
void read_executable(Process& process) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/%d/exe", process.pid);
  const ssize_t length = readlink(link, path, sizeof path);
  if (length > 0) process.executable.assign(path, static_cast<std::size_t>(length));
}

}  // namespace

Process& Sampler::process(pid_t pid) {
  for (Process& known : processes_) {
    if (known.pid == pid && known.alive) return known;
  }
  processes_.push_back({pid, {}});
  processes_.back().first_seen_ns = kit::monotonic_ns();
  return processes_.back();
}

void Sampler::look_at_maps(Process& process) {
  static char text[1 << 20];
  const std::size_t length = read_proc(process.pid, "maps", text, sizeof text);
  if (!length) return;
  process.maps_seen_ns = kit::monotonic_ns();
  process.maps = std::max(process.maps, static_cast<std::uint32_t>(std::count(text, text + length, '\n')));
  if (!request_.library) return;
  process.mapped = false;  // as of now: exec may have brought another program into the same process
  // The path ends its line: "…/libfoo.so" must not pass for "…/libfoo.so.2".
  const std::size_t size = std::strlen(request_.library);
  for (const char* at = text; (at = std::strstr(at, request_.library)); at += size) {
    const char end = at[size];
    if (end == '\n' || end == 0 || std::strncmp(at + size, " (deleted)", 10) == 0) process.mapped = true;
  }
}

void Sampler::look() {
  const std::uint64_t start = kit::monotonic_ns();
  pids_.clear();
  descendants(getpid(), pids_);
  for (Process& known : processes_) known.alive = std::find(pids_.begin(), pids_.end(), known.pid) != pids_.end();

  Sample sample{static_cast<double>(start - exec_ns_) * 1e-9, 0, -1};
  for (const pid_t pid : pids_) {
    const std::int64_t rss = resident_bytes(pid);
    if (rss == 0) continue;  // gone, or a zombie
    Process& seen = process(pid);
    ++seen.looks;
    read_executable(seen);
    seen.peak_rss = std::max(seen.peak_rss, rss);
    sample.rss += rss;
    // The loader needs a moment: what is not mapped at the first look may be at the next.
    if (!seen.mapped && (seen.looks == 2 || seen.looks == 4 || seen.looks % 16 == 0)) look_at_maps(seen);
  }
  const std::uint64_t cheap_end = kit::monotonic_ns();

  if (start >= next_dear_ns_) {
    sample.pss = 0;
    for (const pid_t pid : pids_) {
      sample.pss += proportional_bytes(pid);
      Process& seen = process(pid);
      look_at_maps(seen);
    }
    const std::uint64_t dear = kit::monotonic_ns() - cheap_end;
    dear_ramp_ = std::min(dear_ramp_ * 2, kDearInterval);
    next_dear_ns_ = cheap_end + std::max(static_cast<std::uint64_t>(dear_ramp_ * 1e9), dear * kDearThrift);
  }
  if (!pids_.empty()) samples_.push_back(sample);

  const std::uint64_t end = kit::monotonic_ns();
  cost_ns_ += end - start;
  ramp_ = std::min(ramp_ * 2, request_.interval);
  next_ns_ = start + std::max(static_cast<std::uint64_t>(ramp_ * 1e9), (cheap_end - start) * kCheapThrift);
}

}  // namespace heapyard::trial
