// SPDX-License-Identifier: Apache-2.0
#include "inner.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <string_view>

#include "support.hpp"

extern char** environ;

namespace heapyard::check {
namespace {

constexpr std::span<const Inner> (*kTables[])() = {share_inners, storm_inners, system_inners, core_inners,
                                                   errno_inners};

Answers* map_answers(int file) {
  void* const memory = map_file(file, sizeof(Answers));
  return static_cast<Answers*>(memory);
}

// Without the heap: the one under test may be broken.
std::size_t resident_of(pid_t process) {
  char path[64], text[64] = {};
  std::snprintf(path, sizeof path, "/proc/%d/statm", static_cast<int>(process));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = read(file, text, sizeof text - 1);
  close(file);
  unsigned long size = 0, pages = 0;
  if (got <= 0 || std::sscanf(text, "%lu %lu", &size, &pages) != 2) return 0;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::size_t kMostVariables = 1000;

[[noreturn]] void become(const char* name, const Wishes& wishes, int file) {
  char path[4096], descriptor[16], argument[24], preload[4200] = "";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) _exit(127);
  path[length] = 0;
  std::snprintf(descriptor, sizeof descriptor, "%d", file);
  std::snprintf(argument, sizeof argument, "%zu", wishes.argument);
  static char* variables[kMostVariables + 1];
  std::size_t kept = 0;
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  const char* emulator = wishes.emulator ? wishes.emulator : own_emulator();
  const bool plain = wishes.under == Under::kLibrary && !emulator;
  for (char** each = environ; *each && kept < kMostVariables; ++each) {
    const bool loads = std::string_view(*each).starts_with(kPreload);
    if (loads) std::snprintf(preload, sizeof preload, "%s", *each);
    if (plain || !loads) variables[kept++] = *each;
  }
  const char* words[12] = {};
  std::size_t count = 0;
  if (emulator) words[count++] = emulator;
  if (emulator && wishes.under == Under::kLibrary && preload[0]) {
    words[count++] = "-E";
    words[count++] = preload;
  }
  for (const char* word : {static_cast<const char*>(path), "--inner", name, static_cast<const char*>(descriptor),
                           static_cast<const char*>(argument)})
    words[count++] = word;
  if (wishes.before_exec) wishes.before_exec();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execve(words[0], const_cast<char**>(words), variables);
  _exit(127);
}

}  // namespace

const char* own_emulator() { return std::getenv("HEAPYARD_EMULATOR"); }

const char* Ending::words() const {
  static char text[120];
  switch (how) {
    case How::kExited:
      std::snprintf(text, sizeof text, "ends with exit code %d", detail);
      break;
    case How::kSignal:
      std::snprintf(text, sizeof text, "dies of signal %d (%s)", detail, strsignal(detail));
      break;
    case How::kTooLong:
      std::snprintf(text, sizeof text, "did not end in %d s", detail);
      break;
    case How::kTooLarge:
      std::snprintf(text, sizeof text, "took more than %d MiB and was ended", detail);
      break;
    case How::kNotStarted:
      std::snprintf(text, sizeof text, "could not be started");
      break;
  }
  return text;
}

Ending run_inner(const char* name, const Wishes& wishes) {
  Ending ending;
  const int file = memfd_create("answers", 0);  // inherited
  Answers* answers = file >= 0 && ftruncate(file, sizeof(Answers)) == 0 ? map_answers(file) : nullptr;
  if (!answers) return ending;
  const pid_t child = fork();
  if (child == 0) become(name, wishes, file);
  close(file);
  if (child > 0) {
    rusage usage{};
    int status = 0;
    const std::uint64_t end = monotonic_ns() + wishes.seconds * std::uint64_t{1'000'000'000};
    while (wait4(child, &status, WNOHANG, &usage) == 0) {
      const std::size_t now = resident_of(child);
      const bool late = monotonic_ns() > end, large = now > wishes.most_resident;
      if (late || large) {
        ending.how = late ? Ending::How::kTooLong : Ending::How::kTooLarge;
        ending.detail = static_cast<int>(late ? wishes.seconds : wishes.most_resident >> 20);
        kill(child, SIGKILL);
        wait4(child, &status, 0, &usage);
        break;
      }
      sleep_ms(2);
    }
    ending.resident = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
    if (ending.how == Ending::How::kNotStarted) {
      const bool signalled = WIFSIGNALED(status);
      ending.how = signalled ? Ending::How::kSignal : Ending::How::kExited;
      ending.detail = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
      ending.core = signalled && WCOREDUMP(status);
    }
    for (std::size_t i = 0; i < kAnswers; ++i) ending.values[i] = answers->values[i];
  }
  munmap(answers, sizeof(Answers));
  return ending;
}

int be_inner(const char* name, const char* descriptor, const char* argument) {
  const int file = std::atoi(descriptor);
  Answers* answers = map_answers(file);
  if (!answers) return 126;
  close(file);
  for (const auto table : kTables) {
    for (const Inner& inner : table()) {
      if (std::strcmp(inner.name, name) == 0) return inner.run(*answers, std::strtoull(argument, nullptr, 10));
    }
  }
  return 126;
}

}  // namespace heapyard::check
