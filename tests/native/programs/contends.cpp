// SPDX-License-Identifier: Apache-2.0
// contends KIND THREADS OPERATIONS: threads that meet at cache lines of which MESI says in advance how they move.
//
// It prints, as JSON, where the lines lie and in which order the threads had them, where the program can know: an
// atomic that counts gives each operation its place. Nobody calls malloc in the measured phase.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/simulation.hpp"

namespace {

constexpr int kMostThreads = 8, kMostOperations = 4000;
constexpr std::uint64_t kLineBytes = 64;

struct alignas(kLineBytes) Word {
  std::atomic<std::uint64_t> value;
};

// What the threads share, each in a line of its own.
Word first, second, third;
Word padded[kMostThreads];
struct alignas(kLineBytes) Unpadded {
  std::atomic<std::uint64_t> values[kMostThreads];
} unpadded;

// What a thread alone writes.
struct alignas(4096) Own {
  std::uint16_t places[kMostOperations];  // of its operations, among those of all
  std::uint64_t failures;                 // of compare-and-swap
};
Own own[kMostThreads];

Word nodes[kMostThreads];  // of the stack; the value is the index of the next one
Word ready, done, go;
int threads, operations;

void await(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  while (word.load(std::memory_order_acquire) != value) continue;
}

// Two threads hand a word to and fro.
void ping_pong(int thread) {
  for (int i = 0; i < operations; ++i) {
    await(first.value, static_cast<std::uint64_t>(2 * i + thread));
    first.value.store(static_cast<std::uint64_t>(2 * i + thread + 1), std::memory_order_release);
  }
}

void counter(int thread) {
  for (int i = 0; i < operations; ++i) own[thread].places[i] = static_cast<std::uint16_t>(first.value.fetch_add(1));
}

void padded_counters(int thread) {
  for (int i = 0; i < operations; ++i) padded[thread].value.fetch_add(1);
}

void unpadded_counters(int thread) {
  for (int i = 0; i < operations; ++i) unpadded.values[thread].fetch_add(1);
}

// The head is the index of the top node + 1, and above it how many have changed it: so no node comes back unseen, and a
// change knows its place.
constexpr unsigned kIndexBits = 16;
constexpr std::uint64_t kIndex = (1u << kIndexBits) - 1;

template <class Change>
std::uint64_t change_head(int thread, Change change) {
  std::uint64_t head = first.value.load(std::memory_order_acquire);
  while (true) {
    const std::uint64_t to = ((head >> kIndexBits) + 1) << kIndexBits | change(head & kIndex);
    if (first.value.compare_exchange_strong(head, to, std::memory_order_acq_rel, std::memory_order_relaxed))
      return head;
    ++own[thread].failures;
    head = first.value.load(std::memory_order_acquire);
  }
}

// Each thread pushes its node and takes one.
void treiber_stack(int thread) {
  auto node = static_cast<std::uint64_t>(thread + 1);
  for (int i = 0; i < operations; i += 2) {
    const std::uint64_t before = change_head(thread, [&](std::uint64_t top) {
      nodes[node - 1].value.store(top, std::memory_order_relaxed);
      return node;
    });
    const std::uint64_t after =
        change_head(thread, [](std::uint64_t top) { return nodes[top - 1].value.load(std::memory_order_relaxed); });
    node = after & kIndex;
    own[thread].places[i] = static_cast<std::uint16_t>(before >> kIndexBits);
    own[thread].places[i + 1] = static_cast<std::uint16_t>(after >> kIndexBits);
  }
}

// first: the next ticket; second: whose turn it is; third: what the lock guards.
void ticket_lock(int thread) {
  for (int i = 0; i < operations; ++i) {
    const std::uint64_t ticket = first.value.fetch_add(1);
    await(second.value, ticket);
    third.value.store(third.value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    own[thread].places[i] = static_cast<std::uint16_t>(ticket);
    second.value.store(ticket + 1, std::memory_order_release);
  }
}

struct Kind {
  std::string_view name;
  void (*run)(int thread);
  bool has_places;
};
constexpr Kind kKinds[]{
    {"ping-pong", ping_pong, false},        {"counter", counter, true},
    {"padded", padded_counters, false},     {"unpadded", unpadded_counters, false},
    {"treiber-stack", treiber_stack, true}, {"ticket-lock", ticket_lock, true},
};
const Kind* kind;

void* work(void* argument) {
  const int thread = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  for (int i = 0; i < kMostOperations; i += 64) own[thread].places[i] = 0;  // the pages are there
  ready.value.fetch_add(1);
  await(go.value, 1);
  kind->run(thread);
  done.value.fetch_add(1);
  return nullptr;
}

void print_lines() {
  std::printf("\"lines\": {\"first\": %zu, \"second\": %zu, \"third\": %zu, \"unpadded\": %zu, \"padded\": [",
              reinterpret_cast<std::size_t>(&first), reinterpret_cast<std::size_t>(&second),
              reinterpret_cast<std::size_t>(&third), reinterpret_cast<std::size_t>(&unpadded));
  for (int i = 0; i < threads; ++i) std::printf("%s%zu", i ? ", " : "", reinterpret_cast<std::size_t>(&padded[i]));
  std::printf("]}");
}

// In the order of the operations: which thread did each.
void print_order() {
  static std::uint8_t order[kMostThreads * kMostOperations];
  std::uint64_t failures = 0;
  for (int thread = 0; thread < threads; ++thread) {
    failures += own[thread].failures;
    for (int i = 0; i < operations; ++i) order[own[thread].places[i]] = static_cast<std::uint8_t>(thread);
  }
  std::printf(", \"failures\": %zu, \"order\": [", static_cast<std::size_t>(failures));
  for (int i = 0; i < threads * operations; ++i) std::printf("%s%d", i ? "," : "", order[i]);
  std::printf("]");
}

}  // namespace

int main(int argc, char** argv) {
  threads = argc == 4 ? std::atoi(argv[2]) : 0;
  operations = argc == 4 ? std::atoi(argv[3]) : 0;
  for (const Kind& one : kKinds)
    if (argc == 4 && one.name == argv[1]) kind = &one;
  if (!kind || threads < 1 || threads > kMostThreads || operations < 1 || operations > kMostOperations ||
      threads * operations > UINT16_MAX || (kind->run == ping_pong && threads != 2)) {
    std::fprintf(stderr, "usage: contends KIND THREADS OPERATIONS\n");
    return 2;
  }
  pthread_t made[kMostThreads];
  for (std::intptr_t i = 0; i < threads; ++i)
    if (pthread_create(&made[i], nullptr, work, reinterpret_cast<void*>(i)) != 0) return 1;
  await(ready.value, static_cast<std::uint64_t>(threads));
  heapyard::mark_simulation(heapyard::kSimulationBegin);
  go.value.store(1, std::memory_order_release);
  await(done.value, static_cast<std::uint64_t>(threads));
  heapyard::mark_simulation(heapyard::kSimulationEnd);
  for (int i = 0; i < threads; ++i) pthread_join(made[i], nullptr);
  std::printf("{");
  print_lines();
  if (kind->has_places) print_order();
  std::printf("}\n");
  return 0;
}
