// SPDX-License-Identifier: Apache-2.0
// A program that maps memory by itself, in every way, and knows what of it is resident by which function.
//
//   mapped FILE   writes lines "phase function bytes" there, and "phase stacks bytes", "phase malloc bytes"
#include <fcntl.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" void heapyard_trace_mark(const char* name) __attribute__((weak));

namespace {

constexpr std::size_t kPage = 4096, kMiB = std::size_t{1} << 20;

void touch(char* memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kPage) memory[at] = 1;
}

char* map(std::size_t bytes, int access, int flags = 0, char* at = nullptr) {
  void* memory = mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<char*>(memory);
}

}  // namespace

#define OWNER [[gnu::noinline]] __attribute__((optimize("no-optimize-sibling-calls"))) char*

// Address space of which a part is made usable later, as runtimes do.
OWNER reserves() {
  char* memory = map(256 * kMiB, PROT_NONE, MAP_NORESERVE);
  asm volatile("" ::: "memory");
  return memory;
}
OWNER commits(char* reserved) {
  char* memory = map(8 * kMiB, PROT_READ | PROT_WRITE, MAP_FIXED, reserved + kMiB);
  touch(memory, 5 * kMiB);
  return memory;
}
// Neighbours that the kernel makes one area of.
OWNER maps_few() {
  char* memory = map(16 * kPage, PROT_READ | PROT_WRITE);
  touch(memory, 3 * kPage);
  return memory;
}
OWNER maps_many() {
  char* memory = map(16 * kPage, PROT_READ | PROT_WRITE);
  touch(memory, 11 * kPage);
  return memory;
}
OWNER moves() {
  char* memory = map(kMiB, PROT_READ | PROT_WRITE);
  touch(memory, kMiB);
  void* moved = mremap(memory, kMiB, 3 * kMiB, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) std::abort();
  touch(static_cast<char*>(moved), 3 * kMiB);
  return static_cast<char*>(moved);
}
OWNER maps_file(const char* path) {
  const std::string text(4 * kMiB, 'x');
  const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  void* memory = mmap(nullptr, text.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::abort();
  close(file);
  unlink(path);
  for (std::size_t at = 0; at < text.size(); at += kPage) static_cast<volatile char*>(memory)[at] = 2;
  return static_cast<char*>(memory);
}

OWNER moves_the_break() {
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  sbrk(static_cast<std::intptr_t>((kPage - end % kPage) % kPage));
  char* memory = static_cast<char*>(sbrk(3 * kMiB));
  if (brk(memory + 2 * kMiB) != 0) std::abort();
  touch(memory, kMiB);
  return memory;
}
OWNER attaches_segment() {
  const int segment = shmget(IPC_PRIVATE, 2 * kMiB, IPC_CREAT | 0600);
  void* memory = shmat(segment, nullptr, 0);
  if (segment < 0 || memory == reinterpret_cast<void*>(-1)) std::abort();
  shmctl(segment, IPC_RMID, nullptr);
  touch(static_cast<char*>(memory), kMiB);
  return static_cast<char*>(memory);
}

namespace {

constexpr std::size_t kOnStack = 2 * kMiB;
pthread_barrier_t deep, done;

void* on_stack(void*) {
  char local[kOnStack];
  touch(local, kOnStack);
  asm volatile("" ::"r"(local) : "memory");
  pthread_barrier_wait(&deep);
  pthread_barrier_wait(&done);
  return nullptr;
}

void tell(std::FILE* truth, const char* phase, const char* who, std::size_t bytes) {
  std::fprintf(truth, "%s %s %zu\n", phase, who, bytes);
}

// Long enough for the collector to look.
void reach(const char* phase) {
  if (heapyard_trace_mark != nullptr) heapyard_trace_mark(phase);
  usleep(300'000);
}

}  // namespace

int main(int, char** arguments) {
  std::FILE* truth = std::fopen(arguments[1], "w");
  if (truth == nullptr) return 1;
  constexpr std::size_t kBlocks = 20'000, kPairs = 100;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    auto* memory = static_cast<char*>(std::malloc(1'000));
    std::memset(memory, 1, 1'000);
    asm volatile("" ::"r"(memory) : "memory");
  }
  char* committed = commits(reserves());
  char* few[kPairs];
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    few[pair] = maps_few();
    maps_many();
  }
  moves();
  maps_file((std::string(arguments[1]) + ".data").c_str());
  moves_the_break();
  char* attached = attaches_segment();
  pthread_barrier_init(&deep, nullptr, 2);
  pthread_barrier_init(&done, nullptr, 2);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, on_stack, nullptr) != 0) return 1;
  pthread_barrier_wait(&deep);

  const auto tell_all = [&](const char* phase, std::size_t of_commits, std::size_t of_few, std::size_t of_segment) {
    tell(truth, phase, "reserves", 0);
    tell(truth, phase, "commits", of_commits);
    tell(truth, phase, "maps_few", of_few);
    tell(truth, phase, "maps_many", kPairs * 11 * kPage);
    tell(truth, phase, "moves", 3 * kMiB);
    tell(truth, phase, "maps_file", 4 * kMiB);
    tell(truth, phase, "moves_the_break", kMiB);
    tell(truth, phase, "attaches_segment", of_segment);
    tell(truth, phase, "stacks", kOnStack);
    tell(truth, phase, "malloc", kBlocks * 1'000);
  };
  tell_all("full", 5 * kMiB, kPairs * 3 * kPage, kMiB);
  reach("full");
  for (std::size_t pair = 0; pair < kPairs; pair += 2) munmap(few[pair], 16 * kPage);
  madvise(committed, 2 * kMiB, MADV_DONTNEED);
  shmdt(attached);
  tell_all("less", 3 * kMiB, kPairs / 2 * 3 * kPage, 0);
  reach("less");
  pthread_barrier_wait(&done);
  pthread_join(thread, nullptr);
  std::fclose(truth);
  return 0;
}
