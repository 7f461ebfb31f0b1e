// SPDX-License-Identifier: Apache-2.0
// Blocks that know their contents, under random work: in one thread, across threads, by threads that come and go.
#include "support.hpp"

namespace heapyard::check {
namespace {

// A block that says what it holds: its size and tag first, then bytes that follow from them.
struct Header {
  std::uint64_t bytes, tag;
};

void* make(Random& random, std::uint64_t tag, unsigned large_percent) {
  std::uint64_t bytes = sizeof(Header) + random.below(1u << random.below(11));
  if (random.percent(large_percent)) bytes = sizeof(Header) + random.below(300'000);
  void* block;
  const std::uint64_t how = random.below(10);
  if (how == 0) {
    block = calloc(1, bytes);
    const auto* at = static_cast<const unsigned char*>(block);
    for (std::uint64_t i = 0; block && i < bytes; ++i) {
      if (at[i]) return nullptr;
    }
  } else if (how == 1) {
    if (posix_memalign(&block, std::size_t{8} << random.below(8), bytes) != 0) block = nullptr;
  } else {
    block = malloc(bytes);
  }
  if (!block) return nullptr;
  *static_cast<Header*>(block) = {bytes, tag};
  fill(static_cast<Header*>(block) + 1, bytes - sizeof(Header), tag);
  return block;
}

bool right(const void* block) {
  const auto* header = static_cast<const Header*>(block);
  return header->bytes >= sizeof(Header) && header->bytes < 1u << 20 &&
         intact(header + 1, header->bytes - sizeof(Header), header->tag);
}

void random_walk(Report& report, Amount amount) {
  constexpr std::size_t kSlots = 3000;
  static void* slots[kSlots];
  Random random(3);
  for (std::size_t step = 0; step < amount.of(400'000, 10); ++step) {
    void*& slot = slots[random.below(kSlots)];
    if (slot) {
      if (!right(slot)) return report.fail("a block was damaged by step %zu", step);
      if (random.percent(20)) {
        auto* header = static_cast<Header*>(slot);
        const std::uint64_t old = header->bytes, bytes = sizeof(Header) + random.below(20'000);
        header = static_cast<Header*>(realloc(slot, bytes));
        const std::uint64_t kept = (old < bytes ? old : bytes) - sizeof(Header);
        if (!header || !intact(header + 1, kept, header->tag))
          return report.fail("realloc lost contents at step %zu", step);
        *header = {bytes, step};
        fill(header + 1, bytes - sizeof(Header), step);
        slot = header;
        continue;
      }
      free(slot);
      slot = nullptr;
    } else if (!(slot = make(random, step, 1))) {
      return report.fail("no block, or a calloc that is not zero, at step %zu", step);
    }
  }
  for (void* slot : slots) free(slot);
}

std::atomic<int> damaged, missing;

void exchange(std::size_t threads, std::size_t steps, std::uint64_t seed) {
  constexpr std::size_t kShared = 2048;
  static std::atomic<void*> shared[kShared];
  on_threads(threads, [&](std::size_t index) {
    Random random(seed, index);
    for (std::size_t step = 0; step < steps; ++step) {
      void* block = make(random, step * threads + index, 0);
      if (!block) {
        ++missing;
        continue;
      }
      void* old = shared[random.below(kShared)].exchange(block);
      if (!old) continue;
      if (!right(old)) ++damaged;
      if (random.percent(10)) {
        if (void* const moved = realloc(old, sizeof(Header) + random.below(3000))) old = moved;
      }
      free(old);
    }
  });
  for (std::atomic<void*>& slot : shared) {
    void* old = slot.exchange(nullptr);
    if (old && !right(old)) ++damaged;
    free(old);
  }
}

void tell(Report& report) {
  if (damaged) report.fail("%d blocks were damaged", damaged.load());
  if (missing) report.fail("%d blocks were missing, or zeroed ones not zero", missing.load());
}

void across_threads(Report& report, Amount amount) {
  exchange(4, amount.of(200'000, 8), 1);
  tell(report);
}

void oversubscribed(Report& report, Amount amount) {
  exchange(64, amount.of(10'000, 8), 2);
  tell(report);
}

void churn(Report& report, Amount amount) {
  for (std::size_t generation = 0; generation < amount.of(150, 8); ++generation) exchange(8, 300, 100 + generation);
  tell(report);
}

void one_way(Report& report, Amount amount) {
  // One thread makes all, others that never allocate free all, in batches.
  constexpr std::size_t kRing = 4096;
  static std::atomic<void*> ring[kRing];
  const std::size_t blocks = amount.of(400'000, 8);
  on_threads(4, [&](std::size_t index) {
    Random random(7, index);
    if (index == 0) {
      for (std::size_t i = 0; i < blocks; ++i) {
        void* block = make(random, i, 0);
        if (!block) ++missing;
        while (void* old = ring[i % kRing].load()) {
          (void)old;
          sched_yield();
        }
        ring[i % kRing].store(block);
      }
      return;
    }
    for (std::size_t i = index - 1; i < blocks; i += 3) {
      void* block;
      while (!(block = ring[i % kRing].exchange(nullptr))) sched_yield();
      if (!right(block)) ++damaged;
      free(block);
    }
  });
  tell(report);
}

constexpr Case kStressCases[] = {
    {"stress", "random-walk", "one thread, every call, contents verified at each step", random_walk},
    {"stress", "across-threads", "4 threads free and resize each other's blocks", across_threads},
    {"stress", "one-way", "one thread allocates, three that never do free", one_way},
    {"stress", "oversubscribed", "64 threads exchange blocks", oversubscribed},
    {"stress", "churn", "generations of 8 short threads inherit blocks", churn},
};

}  // namespace

std::span<const Case> stress_cases() { return kStressCases; }

}  // namespace heapyard::check
