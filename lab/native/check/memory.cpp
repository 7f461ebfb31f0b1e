// SPDX-License-Identifier: Apache-2.0
// What a heap holds beyond what the program holds: after threads, after a peak, in hard patterns.
#include <malloc.h>

#include <algorithm>
#include <thread>

#include "support.hpp"

namespace heapyard::check {
namespace {

double mib(std::size_t bytes) { return static_cast<double>(bytes) / kMiB; }

void thread_succession(Report& report, Amount amount) {
  const std::size_t threads = amount.of(100'000, 20);
  std::size_t early = 0;
  for (std::size_t i = 0; i < threads; ++i) {
    if (i == threads / 10) early = resident();
    on_threads(1, [&](std::size_t) {
      void* blocks[40];
      for (std::size_t b = 0; b < 40; ++b) std::memset(blocks[b] = malloc(8 + b * b * 3), 1, 8);
      for (void* block : blocks) free(block);
    });
  }
  const std::size_t late = resident();
  const double grown = late > early ? static_cast<double>(late - early) : 0;
  report.fact("growth_per_thread", grown / (0.9 * static_cast<double>(threads)), "B");
  // A cache line per thread is a leak; what a process has once is not.
  if (grown > 4 * kMiB && grown / (0.9 * static_cast<double>(threads)) > 64) {
    report.fail("%zu threads in succession left %.1f MiB behind", threads * 9 / 10, grown / kMiB);
  }
}

void after_a_peak(Report& report, Amount amount) {
  const std::size_t base = resident();
  const std::size_t peak_bytes = (amount.quick ? 64u : 256u) << 20;
  constexpr std::size_t kMost = 1u << 20;
  void** blocks = map_array<void*>(kMost);
  Random random(4);
  std::size_t count = 0;
  for (std::size_t held = 0; held < peak_bytes && count < kMost;) {
    const std::size_t bytes = random.percent(90) ? 16 + random.below(1000) : 16 + random.below(50'000);
    std::memset(blocks[count++] = malloc(bytes), 1, bytes);
    held += bytes;
  }
  const std::size_t peak = resident();
  for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
  munmap(blocks, kMost * sizeof(void*));
  const std::size_t at_once = resident();
  // A program at rest that still does a little.
  for (int i = 0; i < (amount.quick ? 20 : 60); ++i) {
    sleep_ms(50);
    for (std::size_t bytes = 16; bytes < 4096; bytes *= 2) free(malloc(bytes));
  }
  const std::size_t later = resident();
  malloc_trim(0);
  const std::size_t trimmed = resident();
  const auto kept = [&](std::size_t now) {
    return now > base && peak > base ? 100 * static_cast<double>(now - base) / static_cast<double>(peak - base) : 0.0;
  };
  report.fact("peak", mib(peak - base), "MiB");
  report.fact("kept_at_once", kept(at_once), "%");
  report.fact("kept_later", kept(later), "%");
  report.fact("kept_after_trim", kept(trimmed), "%");
  if (kept(trimmed) > 50) {
    report.note("%.0f %% of a peak stays resident, even after seconds and malloc_trim", kept(trimmed));
  } else if (kept(later) > 50) {
    report.note("%.0f %% of a peak stays resident until malloc_trim is called", kept(later));
  }
}

// Peak of resident memory over the peak of what the program held, while `body` runs; told at most so much.
class Watch {
 public:
  void hold(std::size_t bytes) {
    live_ += bytes;
    if (live_ > most_live_) most_live_ = live_;
  }
  void drop(std::size_t bytes) { live_ -= bytes; }
  void look() {
    const std::size_t now = resident();
    if (now > most_) most_ = now;
  }
  double blowup() const {
    return static_cast<double>(most_ > base_ ? most_ - base_ : 0) / static_cast<double>(most_live_);
  }

 private:
  std::size_t base_ = resident(), live_ = 0, most_live_ = 0, most_ = 0;
};

constexpr double kTooMuch = 8;  // times what the program holds: no size class explains it

void tell(Report& report, double blowup, double too_much = kTooMuch) {
  report.fact("blowup", blowup, "x");
  if (blowup > too_much) report.fail("the process held %.1f times what the program held", blowup);
}

void producer_consumer(Report& report, Amount amount) {
  // Berger's case: one thread only allocates, the other only frees; a heap that reuses nothing grows without end.
  constexpr std::size_t kBatch = 2000, kBytes = 200;
  static void* batch[kBatch];
  Watch watch;
  watch.hold(kBatch * kBytes);
  const std::size_t rounds = amount.of(1'000, 4);
  static std::atomic<std::size_t> made, freed;
  made = freed = 0;
  double half_way = 0;
  std::thread consumer([&] {
    for (std::size_t round = 0; round < rounds; ++round) {
      while (made.load(std::memory_order_acquire) == round) sched_yield();
      for (void* block : batch) free(block);
      freed.store(round + 1, std::memory_order_release);
    }
  });
  for (std::size_t round = 0; round < rounds; ++round) {
    for (void*& block : batch) std::memset(block = malloc(kBytes), 1, kBytes);
    made.store(round + 1, std::memory_order_release);
    while (freed.load(std::memory_order_acquire) == round) sched_yield();
    if (round % 20 == 0) watch.look();
    if (round == rounds / 2) half_way = watch.blowup();
  }
  consumer.join();
  watch.look();
  // A megabyte is what any heap may cost, and a cache has its size; growth without end is what counts.
  report.fact("blowup", watch.blowup(), "x");
  if (watch.blowup() > 40 && watch.blowup() > 1.05 * half_way)
    report.fail("memory of a producer and a consumer grew to %.0f times what is in flight", watch.blowup());
  else if (watch.blowup() > 10)
    report.note("memory of a producer and a consumer grew to %.0f times what is in flight, no further", watch.blowup());
}

void rotating_owners(Report& report, Amount amount) {
  // Threads take turns to allocate all that is live, while another one frees it: private heaps each keep a copy.
  constexpr std::size_t kThreads = 8, kBlocks = 20'000, kBytes = 256;
  void** blocks = map_array<void*>(kBlocks);
  Watch watch;
  watch.hold(kBlocks * kBytes);
  static std::atomic<std::size_t> turn;
  turn = 0;
  const std::size_t turns = amount.of(64, 4);
  on_threads(kThreads, [&](std::size_t index) {
    for (;;) {
      const std::size_t now = turn.load(std::memory_order_acquire);
      if (now >= turns) return;
      if (now % kThreads != index) {
        sched_yield();
        continue;
      }
      for (std::size_t i = 0; i < kBlocks; ++i) free(blocks[i]);
      for (std::size_t i = 0; i < kBlocks; ++i) std::memset(blocks[i] = malloc(kBytes), 1, kBytes);
      watch.look();
      turn.store(now + 1, std::memory_order_release);
    }
  });
  for (std::size_t i = 0; i < kBlocks; ++i) free(blocks[i]);
  // A copy per thread is bounded and known of private heaps; more is growth.
  report.fact("blowup", watch.blowup(), "x");
  if (watch.blowup() > 2 * kThreads)
    report.fail("the process held %.1f times what the program held", watch.blowup());
  else if (watch.blowup() > 4)
    report.note("%zu threads in turn held %.1f times what the program held", kThreads, watch.blowup());
}

void mixed_lifetimes(Report& report, Amount amount) {
  // One block in fifty stays, scattered among short-lived ones, whose size changes in every epoch.
  constexpr std::size_t kShort = 20'000, kMost = 1u << 20;
  void** short_lived = map_array<void*>(kShort);
  void** long_lived = map_array<void*>(kMost);
  Watch watch;
  Random random(5);
  std::size_t kept = 0;
  for (std::size_t epoch = 0; epoch < amount.of(48, 4); ++epoch) {
    const std::size_t bytes = 24 + epoch % 12 * 90;
    for (std::size_t i = 0; i < kShort; ++i) {
      std::memset(short_lived[i] = malloc(bytes), 1, bytes);
      watch.hold(bytes);
    }
    watch.look();
    for (std::size_t i = 0; i < kShort; ++i) {
      if (random.percent(2)) {
        long_lived[kept++] = short_lived[i];
        continue;
      }
      free(short_lived[i]);
      watch.drop(bytes);
    }
  }
  watch.look();
  tell(report, watch.blowup());
}

void shifting_sizes(Report& report, Amount amount) {
  // Robson's idea: what is live stays the same, but its sizes double, and what was freed lies between survivors.
  constexpr std::size_t kLive = 8u << 20, kMost = 1u << 20;
  struct Held {
    void* block;
    std::size_t bytes;
  };
  auto* held = map_array<Held>(kMost);
  Watch watch;
  std::size_t count = 0;
  const std::size_t shifts = amount.quick ? 8 : 12;
  for (std::size_t shift = 0; shift < shifts; ++shift) {
    const std::size_t bytes = std::size_t{16} << shift;
    // Every second survivor goes, all over the heap.
    std::size_t left = 0, live = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 2 == shift % 2) {
        free(held[i].block);
        watch.drop(held[i].bytes);
      } else {
        live += held[i].bytes;
        held[left++] = held[i];
      }
    }
    count = left;
    for (; live + bytes <= kLive && count < kMost; live += bytes) {
      std::memset(held[count].block = malloc(bytes), 1, bytes);
      held[count++].bytes = bytes;
      watch.hold(bytes);
    }
    watch.look();
  }
  // First fit, which joins neighbours, may need log2 of the ratio of sizes (Robson 1977); who cannot join needs no
  // more.
  tell(report, watch.blowup(), std::max(kTooMuch, static_cast<double>(shifts - 1)));
}

constexpr Case kMemoryCases[] = {
    {"memory", "thread-succession", "100,000 threads, one after the other, leave nothing behind", thread_succession},
    {"memory", "after-a-peak", "how much of a peak stays resident: at once, after seconds, after malloc_trim",
     after_a_peak},
    {"memory", "producer-consumer", "one thread allocates, another frees: memory stays bounded", producer_consumer},
    {"memory", "rotating-owners", "threads take turns in allocating all that is live", rotating_owners},
    {"memory", "mixed-lifetimes", "a few long-lived blocks among many short-lived ones", mixed_lifetimes},
    {"memory", "shifting-sizes", "live memory stays, sizes double again and again", shifting_sizes},
};

}  // namespace

std::span<const Case> memory_cases() { return kMemoryCases; }

}  // namespace heapyard::check
