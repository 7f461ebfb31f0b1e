// SPDX-License-Identifier: Apache-2.0
// A core dump of a small program: the kernel walks and writes all that the heap has mapped.
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "inner.hpp"
#include "support.hpp"

namespace heapyard::check {
namespace {

constexpr unsigned kMostSeconds = 20;
constexpr std::size_t kLive = 10u << 20;

void permit_core() {
  const rlimit limit{std::size_t{2} << 30, std::size_t{2} << 30};  // of what is written; holes cost nothing
  setrlimit(RLIMIT_CORE, &limit);
}

struct Core {
  bool found = false, whole = false;
  double written = 0;  // bytes on disk
};

// Every part that the headers promise lies within the file.
bool is_whole(const char* path, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  Elf64_Ehdr header{};
  bool whole = file >= 0 && read(file, &header, sizeof header) == sizeof header;
  for (unsigned i = 0; whole && i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof part);
    whole = pread(file, &part, sizeof part, at) == sizeof part && part.p_offset + part.p_filesz <= size;
  }
  if (file >= 0) close(file);
  return whole;
}

// The only file in the working folder, which is made for it; removed.
Core take_core() {
  Core core;
  DIR* folder = opendir(".");
  while (const dirent* entry = folder ? readdir(folder) : nullptr) {
    struct stat status{};
    if (stat(entry->d_name, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    core = {true, is_whole(entry->d_name, static_cast<std::size_t>(status.st_size)),
            static_cast<double>(status.st_blocks) * 512};
    unlink(entry->d_name);
  }
  if (folder) closedir(folder);
  return core;
}

void core_dump(Report& report, Amount) {
  char pattern[200] = {};
  const int file = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
  if (file >= 0 && read(file, pattern, sizeof pattern - 1) < 0) pattern[0] = 0;
  if (file >= 0) close(file);
  pattern[std::strcspn(pattern, "\n")] = 0;
  if (pattern[0] == '|' || std::strchr(pattern, '/') || !pattern[0])
    return report.skip("cores do not go to the program's folder here: core_pattern is '%s'", pattern);
  char folder[] = "heapyard-core-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder) != 0) return report.skip("no folder can be made here");
  const auto dump = [](Under under, Core& core, double& seconds) {
    const Ending ending = run_inner("dump", {.under = under, .before_exec = permit_core, .seconds = kMostSeconds});
    seconds = static_cast<double>(monotonic_ns()) / 1e9 - ending.values[0];
    core = take_core();
    return ending;
  };
  Core own, of_glibc;
  double seconds = 0, seconds_of_glibc = 0;
  const Ending ending = dump(Under::kLibrary, own, seconds);
  const Ending glibc = dump(Under::kGlibc, of_glibc, seconds_of_glibc);
  if (chdir("..") == 0) rmdir(folder);
  if (!of_glibc.found) return report.skip("the kernel writes no core here: under glibc the program %s", glibc.words());
  if (ending.how == Ending::How::kTooLong && ending.values[0] > 0)
    return report.fail("the core dump of a program with 10 MiB live was not done after %u s", kMostSeconds);
  if (ending.how != Ending::How::kSignal || ending.detail != SIGABRT)
    return report.fail("a program that should abort %s", ending.words());
  if (!own.found) return report.fail("a program with 10 MiB live left no core; under glibc it does");
  report.fact("core_size", own.written / (1 << 20), "MiB");
  report.fact("core_size_of_glibc", of_glibc.written / (1 << 20), "MiB");
  report.fact("core_time", seconds, "s");
  report.fact("core_time_of_glibc", seconds_of_glibc, "s");
  if (!own.whole) report.fail("the core of a program with 10 MiB live is cut off; under glibc it is whole");
  if (own.written > 4 * of_glibc.written)
    report.note("the core of a program with 10 MiB live takes %.0f MiB, %.0f under glibc", own.written / (1 << 20),
                of_glibc.written / (1 << 20));
}

int be_dumped(Answers& answers, std::size_t) {
  Random random(1);
  for (std::size_t held = 0; held < kLive;) {
    const std::size_t bytes = 16 + random.below(random.percent(2) ? 100'000 : 2'000);
    std::memset(malloc(bytes), 1, bytes);
    held += bytes;
  }
  answers.values[0] = static_cast<double>(monotonic_ns()) / 1e9;
  std::abort();
}

constexpr Inner kCoreInners[] = {{"dump", be_dumped}};
constexpr Case kCoreCases[] = {
    {"system", "core-dump", "time and size of the core of a program with 10 MiB live", core_dump}};

}  // namespace

std::span<const Inner> core_inners() { return kCoreInners; }
std::span<const Case> core_cases() { return kCoreCases; }

}  // namespace heapyard::check
