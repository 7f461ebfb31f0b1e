// SPDX-License-Identifier: Apache-2.0
// The life of a process around its heap: constructors, threads that end, forks, libraries that come and go, signals.
#include <dlfcn.h>
#include <spawn.h>

#include <cerrno>
#include <thread>

#include "children.hpp"
#include "inner.hpp"

extern char** environ;

namespace heapyard::check {
namespace {

// Allocates and frees all over the classes; false if a block is missing or damaged.
bool exercise(std::uint64_t seed, std::size_t steps) {
  constexpr std::size_t kSlots = 64;
  struct {
    void* block;
    std::size_t bytes;
  } slots[kSlots] = {};
  Random random(seed);
  bool right = true;
  for (std::size_t step = 0; step < steps; ++step) {
    auto& slot = slots[random.below(kSlots)];
    if (slot.block) right &= intact(slot.block, slot.bytes, seed);
    free(slot.block);
    slot.bytes = random.below(random.percent(2) ? 100'000 : 1'000) + 1;
    slot.block = malloc(slot.bytes);
    if (!slot.block) return false;
    fill(slot.block, slot.bytes, seed);
  }
  for (auto& slot : slots) {
    if (slot.block) right &= intact(slot.block, slot.bytes, seed);
    free(slot.block);
  }
  return right;
}

// The program check_first does what is named as its very first call of the heap, before any constructor.
void first_operations(Report& report, Amount) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
  if (length <= 0) return report.fail("cannot find the programs of this check");
  path[length] = 0;
  std::strcpy(std::strrchr(path, '/') + 1, "check_first");
  for (const char* first : {"free-null", "malloc", "calloc", "realloc", "aligned", "usable-null", "new", "thread"}) {
    char* emulated[] = {const_cast<char*>(own_emulator()), path, const_cast<char*>(first), nullptr};
    char** words = emulated[0] ? emulated : emulated + 1;
    pid_t child;
    if (posix_spawn(&child, words[0], nullptr, nullptr, words, environ) != 0)
      return report.fail("cannot start %s", path);
    char who[64];
    std::snprintf(who, sizeof who, "a process whose first call is %s", first);
    tell(report, who, status_of(child, 5'000));
  }
}

struct Early {
  void* block;
  Early() : block(malloc(100)) { fill(block, 100, 9); }
  ~Early() {
    if (!intact(block, 100, 9)) _exit(3);
    free(block);
    if (!exercise(5, 500)) _exit(3);
  }
};
Early early;
void* from_constructor = nullptr;
[[gnu::constructor(101)]] void first_constructor() { fill(from_constructor = malloc(5000), 5000, 8); }
[[gnu::destructor(101)]] void last_destructor() {
  if (!from_constructor || !intact(from_constructor, 5000, 8)) _exit(3);
  free(from_constructor);
}

void constructors(Report& report, Amount) {
  const pid_t child = fork();
  if (child == 0) {
    std::atexit([] {
      if (!exercise(6, 500)) _exit(3);
    });
    std::exit(exercise(7, 500) ? 0 : 3);
  }
  tell(report, "a process that allocates in atexit and destructors", status_of(child, 10'000));
}

// A key's destructor that allocates, frees, and comes back, before or after the library's own.
struct Keys {
  static inline pthread_key_t of[4];
  static inline std::atomic<int> runs{0}, damaged{0};
  static void destroy(void* block) {
    if (!intact(block, 200, 4)) ++damaged;
    free(block);
    if (!exercise(11, 100)) ++damaged;
    if (++runs % 3) {
      void* next = malloc(200);
      fill(next, 200, 4);
      pthread_setspecific(of[runs % 4], next);
    }
  }
};
struct Local {
  void* block = nullptr;
  void touch() { fill(block = malloc(3000), 3000, 6); }
  ~Local() {
    if (block && !intact(block, 3000, 6)) ++Keys::damaged;
    free(block);
    if (!exercise(12, 100)) ++Keys::damaged;
  }
};
thread_local Local local;

void thread_destructors(Report& report, Amount amount) {
  for (pthread_key_t& key : Keys::of) pthread_key_create(&key, Keys::destroy);
  for (std::size_t round = 0; round < amount.of(200, 5); ++round) {
    std::thread([] {
      local.touch();
      for (const pthread_key_t key : Keys::of) {
        void* block = malloc(200);
        fill(block, 200, 4);
        pthread_setspecific(key, block);
      }
    }).join();
  }
  if (Keys::damaged) report.fail("blocks of threads that ended were damaged %d times", Keys::damaged.load());
}

// While other threads allocate without pause.
template <class Body>
void while_busy(std::size_t threads, Body body) {
  static std::atomic<bool> done;
  static std::atomic<int> damaged;
  done = false;
  damaged = 0;
  std::thread busy[8];
  for (std::size_t i = 0; i < threads; ++i) {
    busy[i] = std::thread([i] {
      for (std::uint64_t seed = i; !done; ++seed) {
        if (!exercise(seed, 500)) ++damaged;
      }
    });
  }
  body();
  done = true;
  for (std::size_t i = 0; i < threads; ++i) busy[i].join();
}

void fork_while_busy(Report& report, Amount amount) {
  static void* inherited[100];
  for (std::size_t i = 0; i < 100; ++i) fill(inherited[i] = malloc(i * 40 + 1), i * 40 + 1, i);
  while_busy(4, [&] {
    for (std::size_t i = 0; i < amount.of(60, 4) && !report.failed(); ++i) {
      const pid_t child = fork();
      if (child == 0) {
        bool right = exercise(i, 1'000);
        for (std::size_t b = 0; b < 100; ++b) {
          right &= intact(inherited[b], b * 40 + 1, b);
          free(inherited[b]);
        }
        std::thread([&] { right &= exercise(i + 1, 1'000); }).join();
        _exit(right ? 0 : 3);
      }
      char who[64];
      std::snprintf(who, sizeof who, "child %zu of a process whose threads allocate", i + 1);
      tell(report, who, status_of(child, 4'000));
    }
  });
}

void nested_forks(Report& report, Amount) {
  std::thread([&] {
    const pid_t child = fork();
    if (child == 0) {
      const pid_t grandchild = fork();
      if (grandchild == 0) _exit(exercise(1, 1'000) ? 0 : 3);
      const int status = status_of(grandchild, 4'000);
      _exit(status == 0 && exercise(2, 1'000) ? 0 : 3);
    }
    tell(report, "a child forked in a thread, with a child of its own", status_of(child, 8'000));
  }).join();
  // A handler of the program's own that allocates between the heap's.
  pthread_atfork([] { free(malloc(500)); }, [] { free(malloc(500)); }, [] { free(malloc(5'000)); });
  const pid_t child = fork();
  if (child == 0) _exit(exercise(3, 1'000) ? 0 : 3);
  tell(report, "a child of a process whose fork handlers allocate", status_of(child, 4'000));
}

void start_others(Report& report, Amount amount) {
  while_busy(2, [&] {
    for (std::size_t i = 0; i < amount.of(40, 4) && !report.failed(); ++i) {
      char* words[] = {const_cast<char*>("true"), nullptr};
      pid_t child;
      if (posix_spawn(&child, "/bin/true", nullptr, nullptr, words, environ) != 0)
        return report.fail("cannot start /bin/true");
      tell(report, "a program that was started", status_of(child, 4'000));
    }
  });
}

void exit_storm(Report& report, Amount amount) {
  // Many threads that end at once, each with blocks of the others.
  constexpr std::size_t kShared = 512;
  static std::atomic<void*> shared[kShared];
  static std::atomic<int> damaged{0};
  for (std::size_t round = 0; round < amount.of(40, 5); ++round) {
    on_threads(64, [&](std::size_t index) {
      Random random(round * 64 + index);
      for (int step = 0; step < 200; ++step) {
        const std::size_t bytes = 16 + random.below(800);
        void* block = malloc(bytes);
        std::memcpy(block, &bytes, sizeof bytes);
        fill(static_cast<char*>(block) + 8, bytes - 8, bytes);
        if (void* old = shared[random.below(kShared)].exchange(block)) {
          std::size_t size;
          std::memcpy(&size, old, sizeof size);
          if (size < 16 || size > 900 || !intact(static_cast<char*>(old) + 8, size - 8, size)) ++damaged;
          free(old);
        }
      }
    });
  }
  if (damaged) report.fail("%d blocks that threads left behind were damaged", damaged.load());
}

void libraries(Report& report, Amount amount) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 40);
  if (length <= 0) return report.fail("cannot find the libraries of this check");
  path[length] = 0;
  std::strcpy(std::strrchr(path, '/') + 1, "../lib/libcheck_plugin.so");
  std::size_t before = 0;
  const std::size_t rounds = amount.of(400, 5);
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round == rounds / 4) before = resident();
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return report.fail("dlopen: %s", dlerror());
    const auto work = reinterpret_cast<int (*)()>(dlsym(library, "check_plugin_work"));
    if (!work || work() != 0) return report.fail("a library that came and went found its blocks damaged");
    std::thread([&] { work(); }).join();
    dlclose(library);
  }
  const std::size_t after = resident();
  const double grown = after > before ? static_cast<double>(after - before) : 0;
  const std::size_t counted = rounds - rounds / 4;
  report.fact("growth_per_cycle", grown / static_cast<double>(counted), "B");
  if (grown > 8e6) report.fail("memory grew by %.0f KiB over %zu cycles of dlopen and dlclose", grown / 1024, counted);
}

std::atomic<int> hits{0};
void on_signal(int) {
  const int error = errno;
  void* block = malloc(static_cast<std::size_t>(1 + hits % 3000));
  std::memset(block, 1, 1);
  free(block);
  ++hits;
  errno = error;
}

void signals(Report& report, Amount amount) {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, nullptr);
  std::atomic<bool> done{false};
  const pthread_t self = pthread_self();
  std::thread sender([&] {
    for (; !done; sleep_ms(0)) pthread_kill(self, SIGUSR1);
  });
  bool right = true;
  for (std::uint64_t seed = 0; hits < static_cast<int>(amount.of(4'000, 4)) && right; ++seed)
    right = exercise(seed, 200);
  done = true;
  sender.join();
  report.fact("interrupted", static_cast<double>(hits), "times");
  if (!right) report.fail("a handler that allocates damaged the heap");
}

constexpr Case kProcessCases[] = {
    {"process", "first-operations",
     "each call as the first of a process, before constructors; as the first of a thread", first_operations},
    {"process", "constructors", "constructors, atexit, destructors of static objects", constructors},
    {"process", "thread-destructors", "destructors of threads' variables allocate and free, in several rounds",
     thread_destructors},
    {"process", "fork-while-busy", "a child allocates at once, though other threads were allocating at the fork",
     fork_while_busy},
    {"process", "nested-forks", "forks in threads, in children, with fork handlers that allocate", nested_forks},
    {"process", "start-others", "posix_spawn while threads allocate", start_others},
    {"process", "exit-storm", "64 threads at a time end with each other's blocks", exit_storm},
    {"process", "libraries", "libraries that allocate come and go by dlopen and dlclose", libraries},
    {"process", "signals", "a signal handler allocates and frees; POSIX does not ask for it", signals, true},
};

}  // namespace

std::span<const Case> process_cases() { return kProcessCases; }

}  // namespace heapyard::check
