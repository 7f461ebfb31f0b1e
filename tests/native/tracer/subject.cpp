// SPDX-License-Identifier: Apache-2.0
// Programs in one: each does one thing that a tracer may stumble over. subject MODE; exit code 0 and "done" when all
// went well.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" __attribute__((weak)) void heapyard_trace_mark(const char* name);

namespace {

std::atomic<bool> stop{false};

[[gnu::noinline]] void* kept_by_parent(std::size_t size) {
  void* block = std::malloc(size);
  asm volatile("# 0" : : "r"(block) : "memory");  // no tail call, and no function like another
  return block;
}
[[gnu::noinline]] void* kept_by_child(std::size_t size) {
  void* block = std::malloc(size);
  asm volatile("# 1" : : "r"(block) : "memory");  // no tail call, and no function like another
  return block;
}
[[gnu::noinline]] void* kept_by_signal(std::size_t size) {
  void* block = std::malloc(size);
  asm volatile("# 2" : : "r"(block) : "memory");  // no tail call, and no function like another
  return block;
}

[[gnu::noinline]] void* kept_at_start(std::size_t size) {
  void* block = std::malloc(size);
  asm volatile("# 3" : : "r"(block) : "memory");  // no tail call, and no function like another
  return block;
}

// Allocates and frees without end, from a few chains, so that something is always on its way to the collector.
void churn() {
  std::vector<void*> held(4096, nullptr);
  for (std::size_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
    void*& place = held[turn * 7919 % held.size()];
    std::free(place);
    place = turn % 3 == 0 ? kept_by_parent(16 + turn % 500) : std::calloc(1, 16 + turn % 3000);
  }
  for (void* block : held) std::free(block);
}

int spin() {
  kept_at_start(4'000'000);  // what whoever kills it can rely on, however little the threads have run
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) threads.emplace_back(churn);
  std::puts("spinning");
  std::fflush(stdout);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// Works for about as long as the collector may take to be killed, then ends by itself.
int spin_a_while() {
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) threads.emplace_back(churn);
  std::puts("spinning");
  std::fflush(stdout);
  usleep(600'000);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// Does what standard input says, line by line, while threads of its own allocate: "keep" 10 blocks more, "drop" those
// that it began with, "load" a library that then allocates, "fork" a child that does.
int serve(const char* library) {
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) threads.emplace_back(churn);
  std::vector<void*> first, kept;
  for (int index = 0; index < 10; ++index) first.push_back(kept_by_parent(1'000'000));
  std::puts("serving");
  std::fflush(stdout);
  char line[100];
  int failed = 0;
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    const std::string word(line, std::strcspn(line, "\n"));
    if (word == "keep") {
      for (int index = 0; index < 10; ++index) kept.push_back(kept_by_signal(1'000'000));
    } else if (word == "drop") {
      for (void* block : first) std::free(block);
      first.clear();
    } else if (word == "load") {
      void* handle = dlopen(library, RTLD_NOW);
      if (handle == nullptr) return 1;
      using Allocate = void* (*)(std::size_t);
      auto* allocate = reinterpret_cast<Allocate>(dlsym(handle, "plugin_allocates"));
      auto* calls = reinterpret_cast<void* (*)()>(dlsym(handle, "plugin_calls"));
      // Its calls are led to the tracer at some look of another thread's, later on a busy machine.
      for (int turn = 0; turn < 1000 && calls() == dlsym(RTLD_DEFAULT, "malloc"); ++turn) usleep(10'000);
      for (int index = 0; index < 10; ++index) kept.push_back(allocate(1'000'000));
    } else if (word == "fork") {
      const pid_t child = fork();
      if (child == 0) _exit(kept_by_child(1'000'000) == nullptr);
      int status = 0;
      if (waitpid(child, &status, 0) != child || status != 0) ++failed;
    }
    std::puts(word.c_str());
    std::fflush(stdout);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (void* block : first) std::free(block);
  for (void* block : kept) std::free(block);
  return failed;
}

// Forks while other threads allocate; children allocate, free what they inherited, and exit or execute something else.
int forks() {
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) threads.emplace_back(churn);
  int failed = 0;
  for (int turn = 0; turn < 30; ++turn) {
    void* inherited = kept_by_parent(100'000);
    const pid_t child = fork();
    if (child == 0) {
      std::free(inherited);
      void* mine = kept_by_child(300'000 + static_cast<std::size_t>(turn));
      std::memset(mine, 1, 300'000);
      if (turn % 5 == 4) execl("/bin/true", "true", nullptr);
      _exit(mine == nullptr);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++failed;
    std::free(inherited);
  }
  // A collector of our own making would show here as a child that nobody started.
  if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) ++failed;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return failed;
}

// Blocks whose chain lies in a library that is unloaded and loaded again.
int loads(const char* library) {
  for (int turn = 0; turn < 50; ++turn) {
    void* handle = dlopen(library, RTLD_NOW);
    if (handle == nullptr) return 1;
    using Allocate = void* (*)(std::size_t);
    auto* allocate = reinterpret_cast<Allocate>(dlsym(handle, "plugin_allocates"));
    if (allocate == nullptr) return 1;
    void* block = allocate(50'000);
    dlclose(handle);
    if (turn % 2 == 0) std::free(block);
  }
  return 0;
}

// Signals that allocate, in the middle of whatever the thread does, recording included.
int signals() {
  struct sigaction action{};
  static std::atomic<int> handled{0};
  action.sa_handler = [](int) {
    const int saved = errno;
    // Not legal in general; under glibc's malloc it may deadlock, so the handler keeps to what the main loop does not.
    handled.fetch_add(1);
    errno = saved;
  };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (int turn = 0; turn < 400'000; ++turn) {
    errno = 77;
    void* block = kept_by_signal(64 + static_cast<std::size_t>(turn % 100));
    std::free(block);
    if (errno != 77) return 1;
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  return handled.load() > 0 ? 0 : 1;
}

// A daemon's child, which gives up root's rights before it allocates anything.
int gives_up_rights() {
  kept_by_parent(1000);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    _exit(kept_by_child(1'000'000) == nullptr);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

// Many threads in succession: their rings must be given back.
int many_threads() {
  for (int turn = 0; turn < 3000; ++turn) {
    std::thread([] {
      void* block = kept_by_parent(2000);
      std::memset(block, 1, 2000);
      std::free(block);
    }).join();
  }
  return 0;
}

// Threads that first ask for their own stack, as those of Rust do: the C library allocates under a lock meanwhile.
int stack_bounds() {
  for (int turn = 0; turn < 50; ++turn) {
    std::thread([] {
      pthread_attr_t attributes;
      if (pthread_getattr_np(pthread_self(), &attributes) == 0) pthread_attr_destroy(&attributes);
      std::free(kept_by_parent(2000));
    }).join();
  }
  return 0;
}

// No memory: malloc fails as it always did, and errno says so.
int out_of_memory() {
  const rlimit limit{1u << 30, 1u << 30};
  setrlimit(RLIMIT_AS, &limit);
  std::vector<void*> blocks;
  blocks.reserve(100'000);
  for (;;) {
    errno = 0;
    void* block = std::malloc(1u << 20);
    if (block == nullptr) break;
    blocks.push_back(block);
  }
  const bool right = errno == ENOMEM;
  // A realloc that fails leaves its block alone.
  std::memset(blocks.back(), 42, 1u << 20);
  void* const moved = std::realloc(blocks.back(), 900u << 20);
  const bool refused = moved == nullptr;
  const bool whole = refused && static_cast<char*>(blocks.back())[12345] == 42;
  if (heapyard_trace_mark != nullptr) heapyard_trace_mark("full");
  std::printf("%zu\n", blocks.size());
  for (void* block : blocks) std::free(block);
  return right && refused && whole ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  int failed = 2;
  if (mode == "spin") failed = spin();
  if (mode == "spin-a-while") failed = spin_a_while();
  if (mode == "serve" && count > 2) failed = serve(arguments[2]);
  if (mode == "forks") failed = forks();
  if (mode == "loads" && count > 2) failed = loads(arguments[2]);
  if (mode == "signals") failed = signals();
  if (mode == "many-threads") failed = many_threads();
  if (mode == "gives-up-rights") failed = gives_up_rights();
  if (mode == "stack-bounds") failed = stack_bounds();
  if (mode == "out-of-memory") failed = out_of_memory();
  if (failed == 0) std::puts("done");
  return failed;
}
