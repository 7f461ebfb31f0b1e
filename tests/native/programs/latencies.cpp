// SPDX-License-Identifier: Apache-2.0
// latencies: what this machine takes for what the simulator charges (simulator/model/machine.hpp), as JSON in
// nanoseconds.
//
// Each figure is the least of several runs: what disturbs only adds.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/clock.hpp"

namespace {

constexpr int kRuns = 7;
constexpr std::size_t kLine = 64, kPage = 4096, kMiB = std::size_t{1} << 20;

template <class Body>
double least_ns(long operations, Body body) {
  double least = std::numeric_limits<double>::max();
  for (int run = 0; run < kRuns; ++run) {
    const std::uint64_t begin = heapyard::monotonic_ns();
    body();
    least = std::min(least, static_cast<double>(heapyard::monotonic_ns() - begin) / static_cast<double>(operations));
  }
  return least;
}

// Additions that wait for each other take a cycle each.
double cycle_ns() {
  constexpr long kAdditions = 20'000'000;
  return least_ns(kAdditions, [] {
    std::uint64_t sum = 1;
    for (long i = 0; i < kAdditions / 10; ++i)
      asm volatile(
          "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n add "
          "%0, %0\n add %0, %0"
          : "+r"(sum));
  });
}

// Loads that wait for each other, over all lines of `bytes` in a random order, in huge pages if the kernel has them.
double chase_ns(std::size_t bytes) {
  const std::size_t mapped = std::max(bytes, 2 * kMiB) + 2 * kMiB;
  void* const raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return 0;
  madvise(raw, mapped, MADV_HUGEPAGE);
  char* const memory =
      reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(raw) + 2 * kMiB - 1) & ~(2 * kMiB - 1));
  std::vector<std::size_t> order(bytes / kLine);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin() + 1, order.end(), std::mt19937_64(1));
  for (std::size_t i = 0; i < order.size(); ++i)
    *reinterpret_cast<void**>(memory + order[i] * kLine) = memory + order[(i + 1) % order.size()] * kLine;
  constexpr long kLoads = 1'000'000;
  void* at = memory;
  const double ns = least_ns(kLoads, [&] {
    for (long i = 0; i < kLoads; ++i) asm volatile("mov (%0), %0" : "+r"(at) : : "memory");
  });
  munmap(raw, mapped);
  return ns;
}

double atomic_ns() {
  constexpr long kAtomics = 2'000'000;
  static std::atomic<std::uint64_t> word;
  return least_ns(kAtomics, [] {
    for (long i = 0; i < kAtomics; ++i) word.fetch_add(1);
  });
}

double system_call_ns() {
  constexpr long kCalls = 300'000;
  return least_ns(kCalls, [] {
    for (long i = 0; i < kCalls; ++i) syscall(SYS_getppid);
  });
}

double page_fault_ns() {
  constexpr std::size_t kPages = 8192;
  double least = std::numeric_limits<double>::max();
  for (int run = 0; run < kRuns; ++run) {
    char* const memory =
        static_cast<char*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED) return 0;
    madvise(memory, kPages * kPage, MADV_NOHUGEPAGE);
    const std::uint64_t begin = heapyard::monotonic_ns();
    for (std::size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * kPage] = 1;
    least = std::min(least, static_cast<double>(heapyard::monotonic_ns() - begin) / static_cast<double>(kPages));
    munmap(memory, kPages * kPage);
  }
  return least;
}

// Two threads hand a word to and fro; `pass` waits for a value and stores the next. A hand-over in nanoseconds.
struct alignas(128) Word {
  std::atomic<std::uint32_t> value;
};
Word word;
long handovers;
void (*pass)(std::uint32_t value);

void spin(std::uint32_t value) {
  while (word.value.load(std::memory_order_acquire) != value) continue;
  word.value.store(value + 1, std::memory_order_release);
}
void sleep_until(std::uint32_t value) {
  std::uint32_t is;
  while ((is = word.value.load(std::memory_order_acquire)) != value)
    syscall(SYS_futex, &word.value, FUTEX_WAIT_PRIVATE, is, nullptr, nullptr, 0);
  word.value.store(value + 1, std::memory_order_release);
  syscall(SYS_futex, &word.value, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
void* other(void*) {
  for (long i = 1; i < handovers; i += 2) pass(static_cast<std::uint32_t>(i));
  return nullptr;
}
double handover_ns(void (*way)(std::uint32_t), long count) {
  pass = way, handovers = count;
  return least_ns(count, [] {
    word.value = 0;
    pthread_t made;
    if (pthread_create(&made, nullptr, other, nullptr) != 0) return;
    for (long i = 0; i < handovers; i += 2) pass(static_cast<std::uint32_t>(i));
    pthread_join(made, nullptr);
  });
}

}  // namespace

int main() {
  std::printf("{\"cycle\": %.4f, ", cycle_ns());
  std::printf("\"l1\": %.3f, \"l2\": %.3f, \"l3\": %.3f, \"memory\": %.2f, ", chase_ns(16 << 10), chase_ns(512 << 10),
              chase_ns(8 * kMiB), chase_ns(256 * kMiB));
  std::printf("\"atomic\": %.3f, \"system_call\": %.1f, \"page_fault\": %.1f, ", atomic_ns(), system_call_ns(),
              page_fault_ns());
  std::printf("\"handover\": %.2f, \"sleeping_handover\": %.1f}\n", handover_ns(spin, 200'000),
              handover_ns(sleep_until, 20'000));
  return 0;
}
