// SPDX-License-Identifier: Apache-2.0
// forks_beside [SECONDS]: a thread forks all the time beside others that are in the C library while it holds locks of
// its own and allocates; children allocate at once. Whatever malloc serves the program must neither hang nor hand out
// what is in use. Without SECONDS: a few forks, with the time between closing the heap and the fork made as long as it
// takes the others to be served in it. What went wrong is said on standard error; a hang ends by SIGALRM.
//
// The long window: a handler registered before any library's constructor runs after every library's own before a fork,
// thus with the heap closed. It waits until each of the others has gone its round.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

constexpr unsigned kPatience = 60;    // seconds without a fork, or of a child, are a hang
constexpr int kWide = 2, kForks = 6;  // without SECONDS: with the long window, and without it
constexpr int kEach = 100;            // allocations of a kind in a child

std::atomic<bool> done{false}, widen{false};
char time_zone[] = "TZ=:Europe/Paris";

[[noreturn]] void fail(const char* what) {
  const char* parts[] = {"forks_beside: ", what, "\n"};
  for (const char* part : parts) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) _exit(2);
  }
  _exit(1);
}

void* filled(void* block, std::size_t bytes) {
  if (block == nullptr) fail("malloc gave null");
  return std::memset(block, static_cast<int>(bytes), bytes);
}
void check_and_free(void* block, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(block);
  for (std::size_t i = 0; i < bytes; i += 1 + bytes / 64) {
    if (at[i] != static_cast<unsigned char>(bytes)) fail("a block changed while it was in use");
  }
  free(block);
}

constexpr std::size_t kSizes[] = {1, 24, 100, 511, 1000, 4000, 20'000, 70'000, 300'000, 1'500'000};

// All kinds of allocation, `each` times; some stay until all are done.
void allocate(int each) {
  for (const std::size_t bytes : kSizes) {
    const int count = bytes > 50'000 ? 1 + each / 20 : each;
    for (int kind = 0; kind < 4; ++kind) {
      void* kept[kEach];
      for (int i = 0; i < count; ++i) {
        void* block = nullptr;
        if (kind == 0) block = malloc(bytes);
        if (kind == 1) {
          block = calloc(1, bytes);
          for (std::size_t at = 0; at < bytes; at += 1 + bytes / 64) {
            if (static_cast<char*>(block)[at] != 0) fail("calloc gave what is not zero");
          }
        }
        if (kind == 2) block = realloc(filled(malloc(bytes / 2 + 1), bytes / 2 + 1), bytes);
        if (kind == 3 && posix_memalign(&block, std::size_t{16} << i % 9, bytes) != 0) fail("posix_memalign failed");
        kept[i] = filled(block, bytes);
      }
      for (int i = 0; i < count; ++i) check_and_free(kept[i], bytes);
    }
  }
}

// What the others do, a round each: the C library allocates with its locks held.
void read_lines() {
  std::FILE* file = std::fopen("/etc/passwd", "r");
  if (file == nullptr) fail("/etc/passwd cannot be read");
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, file) > 0) {
  }
  free(line);
  std::fclose(file);
}
void flush_all() {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  for (int i = 0; i < 100; ++i) std::fprintf(file, "%d lines and more of them\n", i);
  std::fflush(nullptr);
  std::fclose(file);
  free(text);
}
void resolve() {
  addrinfo* found = nullptr;
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_family = AF_INET;
  if (getaddrinfo("localhost", nullptr, &wish, &found) == 0) freeaddrinfo(found);
}
void load() {
  for (const char* name : {"libresolv.so.2", "libutil.so.1", "libanl.so.1", "no such library"}) {
    if (void* library = dlopen(name, RTLD_NOW)) dlclose(library);
  }
}
void tell_time() {
  // In place, for setenv() is not for programs with threads.
  std::strcpy(time_zone, std::strcmp(time_zone, "TZ=:Asia/Tokyo") == 0 ? "TZ=:Europe/Paris" : "TZ=:Asia/Tokyo");
  const time_t now = time(nullptr);
  tm local{};
  tzset();
  localtime_r(&now, &local);
  char text[100];
  if (strftime(text, sizeof text, "%c %Z", &local) == 0) fail("strftime gave nothing");
}
void* once(void*) {
  check_and_free(filled(malloc(200), 200), 200);
  return nullptr;
}
void start_threads() {
  pthread_t threads[3];
  for (pthread_t& thread : threads) {
    if (pthread_create(&thread, nullptr, once, nullptr) != 0) fail("pthread_create failed");
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}
void work() { allocate(3); }
void look() {
  if (mallinfo2().arena == SIZE_MAX) fail("mallinfo2 told nonsense");
}

struct Other {
  void (*round)();
  const char* name;
  bool is_patient = false;  // it waits for the fork a while, then does without: not waited for, to save the time
  std::atomic<unsigned> rounds{0};
};
Other others[] = {{read_lines, "fopen and getline"}, {read_lines, "fopen and getline"}, {flush_all, "fflush(NULL)"},
                  {flush_all, "fflush(NULL)"},       {resolve, "getaddrinfo"},          {load, "dlopen"},
                  {tell_time, "strftime"},           {start_threads, "pthread_create"}, {work, "malloc and free"},
                  {look, "mallinfo2", true}};

void* go_on(void* argument) {
  auto& other = *static_cast<Other*>(argument);
  while (!done) {
    other.round();
    ++other.rounds;
  }
  return nullptr;
}

void child_and_wait(int each) {
  const pid_t child = fork();
  if (child == -1) fail("fork failed");
  if (child == 0) {
    alarm(kPatience);
    allocate(each);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) fail("the child is gone");
  if (WIFSIGNALED(status)) fail(WTERMSIG(status) == SIGALRM ? "a child hangs" : "a child crashed");
  if (status != 0) fail("a child found a fault");
}

// Forks of two threads overlap.
void* fork_too(void*) {
  while (!done) child_and_wait(2);
  return nullptr;
}

void wait_for_the_others() {
  if (!widen) return;
  for (Other& other : others) {
    if (other.is_patient) continue;
    // One may have begun before; the second was begun and ended with the heap closed.
    const unsigned before = other.rounds;
    for (unsigned slept = 0; other.rounds - before < 2; ++slept) {
      if (slept == kPatience * 1000) {
        std::fprintf(stderr, "forks_beside: %s is not served while another thread forks\n", other.name);
        _exit(1);
      }
      usleep(1000);
    }
  }
}

void register_first(int, char**, char**) { pthread_atfork(wait_for_the_others, nullptr, nullptr); }
[[gnu::used, gnu::section(".preinit_array")]] void (*first)(int, char**, char**) = register_first;

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 0;
  putenv(time_zone);
  pthread_t threads[std::size(others) + 1];
  for (std::size_t i = 0; i < std::size(others); ++i) pthread_create(&threads[i], nullptr, go_on, &others[i]);
  const time_t end = time(nullptr) + seconds;
  long forks = 0;
  widen = seconds == 0;
  for (int i = 0; i < kWide && seconds == 0; ++i, ++forks) {
    alarm(2 * kPatience);
    child_and_wait(5);
  }
  widen = false;
  pthread_create(&threads[std::size(others)], nullptr, fork_too, nullptr);
  for (int i = 0; i < kForks || time(nullptr) < end; ++i, ++forks) {
    alarm(kPatience);
    child_and_wait(i % 10 == 0 ? kEach : 5);
  }
  done = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  std::printf("%ld forks", forks);
  for (Other& other : others) std::printf(", %s %u", other.name, other.rounds.load());
  std::printf("\n");
  return 0;
}
