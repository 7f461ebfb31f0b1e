// SPDX-License-Identifier: Apache-2.0
// Forks while other threads are inside the C library, which allocates under locks of its own: a heap that takes its
// locks in the wrong order at a fork hangs with them, in the parent or in the child.
#include <dlfcn.h>
#include <malloc.h>
#include <netdb.h>
#include <sys/prctl.h>

#include <ctime>
#include <thread>

#include "children.hpp"

namespace heapyard::check {
namespace {

constexpr std::size_t kOfEachKind = 100;
constexpr long kMostForChild = 4'000, kMostForFork = 6'000;  // ms

// A hundred blocks of each function that makes some; false if one is missing or damaged.
bool every_kind(std::uint64_t seed) {
  constexpr std::size_t kKinds = 7;
  static void* blocks[kKinds * kOfEachKind];
  Random random(seed);
  const auto bytes_of = [](std::size_t i) { return 1 + i * i % 3'000; };
  for (std::size_t i = 0; i < kKinds * kOfEachKind; ++i) {
    const std::size_t bytes = bytes_of(i), alignment = std::size_t{16} << random.below(6);
    void* block = nullptr;
    switch (i % kKinds) {
      case 0:
        block = malloc(bytes);
        break;
      case 1:
        block = calloc(1, bytes);
        break;
      case 2:
        block = realloc(malloc(1 + bytes / 3), bytes);
        break;
      case 3:
        block = memalign(alignment, bytes);
        break;
      case 4:
        block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        break;
      case 5:
        if (posix_memalign(&block, alignment, bytes) != 0) block = nullptr;
        break;
      default:
        block = operator new(bytes);
    }
    if (!block) return false;
    fill(blocks[i] = block, bytes, i);
  }
  bool right = true;
  for (std::size_t i = 0; i < kKinds * kOfEachKind; ++i) {
    right &= intact(blocks[i], bytes_of(i), i);
    if (i % kKinds == 6)
      operator delete(blocks[i]);
    else
      free(blocks[i]);
  }
  return right;
}

// What the host has come to, in memory that the case sees too.
struct Progress {
  std::atomic<int> forks;
  std::atomic<int> status;  // of the child that did not end well
};

[[noreturn]] void host(Progress& progress, void (*const* busy)(), std::size_t forks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (; *busy; ++busy) {
    std::thread([body = *busy] {
      for (;;) body();
    }).detach();
  }
  for (std::size_t i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(every_kind(i) ? 0 : 3);
    }
    ++progress.forks;
    const int status = status_of(child, kMostForChild);
    if (status != 0) {
      progress.status = status;
      _exit(4);
    }
  }
  _exit(0);
}

// -1 if it hung: a slow machine takes long over all forks, but not over one.
int status_of_host(pid_t child, const Progress& progress) {
  int status = 0, seen = 0;
  for (long waited = 0; waitpid(child, &status, WNOHANG) != child; waited += 5) {
    if (const int now = progress.forks; now != seen) {
      seen = now;
      waited = 0;
    }
    if (waited > kMostForFork) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return -1;
    }
    sleep_ms(5);
  }
  return status;
}

// Forks beside threads that each do one of these again and again. The host is a process of its own: it may hang.
void fork_beside(Report& report, const char* what, void (*const* busy)(), std::size_t forks) {
  auto* progress = static_cast<Progress*>(map_shared(sizeof(Progress)));
  if (progress == nullptr) return report.fail("cannot map a page");
  const pid_t child = fork();
  if (child == 0) host(*progress, busy, forks);
  const int status = status_of_host(child, *progress);
  const int done = progress->forks;
  report.fact("forks", done, "times");
  char who[160];
  if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 4) {
    std::snprintf(who, sizeof who, "child %d of a process with threads in %s", done, what);
    return tell(report, who, progress->status);
  }
  std::snprintf(who, sizeof who, "a process with threads in %s, after %d forks,", what, done);
  tell(report, who, status);
}

void read_lines() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  char* line = nullptr;
  std::size_t room = 0;
  while (file && getline(&line, &room, file) > 0) {
    free(line);
    line = nullptr;
    room = 0;
  }
  free(line);
  if (file) std::fclose(file);
}
void flush_all() { std::fflush(nullptr); }

char plugin[4096];
void load_and_unload() {
  if (void* library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL)) dlclose(library);
}

void look_up() {
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", "80", nullptr, &found) == 0) freeaddrinfo(found);
}

// One thread alone changes the environment; without time zone files the C library still reads and allocates.
void change_zone() {
  static int turn = 0;
  constexpr const char* kZones[] = {"Europe/Vienna", "America/New_York", "Asia/Kolkata", "UTC", ":/etc/localtime"};
  setenv("TZ", kZones[++turn % 5], 1);
  tzset();
  const std::time_t moment = 1'700'000'000 + turn;
  std::tm parts{};
  char text[100];
  if (localtime_r(&moment, &parts)) std::strftime(text, sizeof text, "%c %Z", &parts);
}

void allocate() {
  for (std::size_t bytes = 8; bytes < 4'000; bytes += 40) free(malloc(bytes));
}
void start_a_thread() { std::thread(allocate).join(); }

std::size_t forks_of(Amount amount) { return amount.of(150, 3); }

void beside_stdio(Report& report, Amount amount) {
  constexpr void (*kBusy[])() = {read_lines, read_lines, flush_all, nullptr};
  fork_beside(report, "fopen, getline and fflush(NULL)", kBusy, forks_of(amount));
}

void beside_dlopen(Report& report, Amount amount) {
  const ssize_t length = readlink("/proc/self/exe", plugin, sizeof plugin - 40);
  if (length <= 0) return report.fail("cannot find the libraries of this check");
  plugin[length] = 0;
  std::strcpy(std::strrchr(plugin, '/') + 1, "../lib/libcheck_plugin.so");
  constexpr void (*kBusy[])() = {load_and_unload, load_and_unload, nullptr};
  fork_beside(report, "dlopen and dlclose", kBusy, forks_of(amount));
}

void beside_names(Report& report, Amount amount) {
  constexpr void (*kBusy[])() = {look_up, look_up, nullptr};
  fork_beside(report, "getaddrinfo", kBusy, forks_of(amount));
}

void beside_zones(Report& report, Amount amount) {
  constexpr void (*kBusy[])() = {change_zone, allocate, nullptr};
  fork_beside(report, "tzset, localtime_r and strftime", kBusy, forks_of(amount));
}

void beside_threads(Report& report, Amount amount) {
  constexpr void (*kBusy[])() = {start_a_thread, start_a_thread, nullptr};
  fork_beside(report, "pthread_create", kBusy, forks_of(amount));
}

constexpr Case kForkingCases[] = {
    {"process", "fork-beside-stdio", "forks while threads are in fopen, getline and fflush(NULL)", beside_stdio},
    {"process", "fork-beside-dlopen", "forks while threads load and unload libraries", beside_dlopen},
    {"process", "fork-beside-names", "forks while threads look up localhost", beside_names},
    {"process", "fork-beside-zones", "forks while a thread changes the time zone", beside_zones},
    {"process", "fork-beside-threads", "forks while threads start threads", beside_threads},
};

}  // namespace

std::span<const Case> forking_cases() { return kForkingCases; }

}  // namespace heapyard::check
