// SPDX-License-Identifier: Apache-2.0
// Threads and reallocs at full rate, ten thousand threads at once, and what mallinfo2 makes of threads.
#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>

#include "inner.hpp"
#include "support.hpp"
#include "system_calls.hpp"

namespace heapyard::check {
namespace {

void thread_storm(Report& report, Amount amount) {
  // Threads come and go, several at a time; each frees a block of another one that may have ended.
  constexpr std::size_t kMakers = 4, kShared = 64;
  static std::atomic<void*> shared[kShared];
  static std::atomic<int> damaged{0};
  static std::atomic<std::size_t> numbers{0};
  constexpr std::size_t kBytes = 300;
  const std::size_t each = amount.of(10'000, 8);
  const auto swap = [](std::size_t place, void* block) {
    void* old = shared[place % kShared].exchange(block);
    if (old && !intact(old, kBytes, 5)) ++damaged;
    free(old);
  };
  const auto body = [](void* number) -> void* {
    const auto seed = reinterpret_cast<std::uintptr_t>(number);
    void* blocks[20];
    for (std::size_t b = 0; b < 20; ++b) fill(blocks[b] = malloc(10 + b * b * 9), 10 + b * b * 9, seed);
    void* left = malloc(kBytes);
    fill(left, kBytes, 5);
    void* old = shared[seed % kShared].exchange(left);
    if (old && !intact(old, kBytes, 5)) ++damaged;
    free(old);
    for (std::size_t b = 0; b < 20; ++b) {
      if (!intact(blocks[b], 10 + b * b * 9, seed)) ++damaged;
      free(blocks[b]);
    }
    return nullptr;
  };
  static std::atomic<std::size_t> early{0};
  static std::atomic<bool> refused{false};
  const std::uint64_t began = monotonic_ns();
  on_threads(kMakers, [&](std::size_t index) {
    for (std::size_t i = 0; i < each; ++i) {
      if (index == 0 && i == each / 4) early = resident();
      pthread_t thread;
      if (pthread_create(&thread, nullptr, body, reinterpret_cast<void*>(++numbers)) != 0) {
        refused = true;
        return;
      }
      pthread_join(thread, nullptr);
    }
  });
  const double seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
  const std::size_t late = resident();
  for (std::size_t place = 0; place < kShared; ++place) swap(place, nullptr);
  const double threads = static_cast<double>(kMakers * each),
               grown = late > early ? static_cast<double>(late - early) : 0;
  report.fact("storm_threads_per_second", threads / seconds, "1/s");
  report.fact("storm_growth_per_thread", grown / (0.75 * threads), "B");
  if (refused) report.fail("a thread could not be started");
  if (damaged) report.fail("%d blocks of threads that came and went were damaged", damaged.load());
  if (grown > 8e6 && grown / (0.75 * threads) > 64)
    report.fail("%.0f threads that came and went left %.1f MiB behind", 0.75 * threads, grown / (1 << 20));
}

// Argument: how many threads live at once. Tells how many there were, and memory with its page tables.
int many_at_once(Answers& answers, std::size_t count) {
  constexpr std::size_t kStack = 64u << 10;
  char* stacks = map_array<char>(count * kStack);
  auto* threads = map_array<pthread_t>(count);
  free(malloc(100));
  static pthread_barrier_t arrived, leave;
  pthread_barrier_init(&arrived, nullptr, static_cast<unsigned>(count + 1));
  pthread_barrier_init(&leave, nullptr, static_cast<unsigned>(count + 1));
  const auto held = [] { return static_cast<double>(resident() + status_field("VmPTE:")); };
  const double before = held();
  for (std::size_t i = 0; i < count; ++i) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stacks + i * kStack, kStack);
    const auto body = [](void*) -> void* {
      void* blocks[8];
      for (std::size_t b = 0; b < 8; ++b) std::memset(blocks[b] = malloc(16 + b * 50), 1, 16);
      for (std::size_t b = 1; b < 8; ++b) free(blocks[b]);
      pthread_barrier_wait(&arrived);
      pthread_barrier_wait(&leave);
      free(blocks[0]);
      return nullptr;
    };
    if (pthread_create(&threads[i], &attributes, body, nullptr) != 0) _exit(4);
    answers.values[0] = static_cast<double>(i + 1);
  }
  pthread_barrier_wait(&arrived);
  answers.values[1] = held() - before;
  pthread_barrier_wait(&leave);
  for (std::size_t i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
  return 0;
}

void threads_at_once(Report& report, Amount amount) {
  const std::size_t count = amount.of(10'000, 5);
  Wishes wishes{.argument = count, .seconds = 40};
  const Ending own = run_inner("many-at-once", wishes);
  wishes.under = Under::kGlibc;
  const Ending glibc = run_inner("many-at-once", wishes);
  if (!glibc.well())
    return report.skip("under glibc the program with %zu threads %s (it had %.0f)", count, glibc.words(),
                       glibc.values[0]);
  if (!own.well())
    return report.fail("a program with %zu threads at once %s after it had %.0f; under glibc it ends well", count,
                       own.words(), own.values[0]);
  const double each = own.values[1] / static_cast<double>(count),
               of_glibc = glibc.values[1] / static_cast<double>(count);
  report.fact("memory_per_thread", each / 1024, "KiB");
  report.fact("memory_per_thread_of_glibc", of_glibc / 1024, "KiB");
  // Its stack and what the kernel keeps are in both.
  constexpr double kTooMuch = 256 << 10, kMuch = 64 << 10;
  if (each - of_glibc > kTooMuch)
    report.fail("each of %zu threads costs %.0f KiB of memory, %.0f under glibc", count, each / 1024, of_glibc / 1024);
  else if (each - of_glibc > kMuch)
    report.note("each of %zu threads costs %.0f KiB of memory, %.0f under glibc", count, each / 1024, of_glibc / 1024);
}

constexpr std::size_t kStormThreads = 4, kBuffers = 8, kLargest = 512u << 10;
std::atomic<std::size_t> asked{0}, damaged_by_growing{0};

// Buffers that grow side by side, as vectors and strings do, and go when they are full.
void grow_and_drop(std::size_t rounds) {
  on_threads(kStormThreads, [rounds](std::size_t index) {
    Random random(3, index);
    std::size_t bytes_asked = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      struct {
        char* block;
        std::size_t bytes;
      } buffers[kBuffers] = {};
      for (std::size_t growing = kBuffers; growing;) {
        auto& buffer = buffers[random.below(kBuffers)];
        if (buffer.bytes > kLargest) continue;
        const std::size_t bytes = buffer.bytes + buffer.bytes / 2 + 16 + random.below(32);
        auto* grown = static_cast<char*>(realloc(buffer.block, bytes));
        if (!grown || (buffer.bytes && (grown[0] != 1 || grown[buffer.bytes - 1] != 2))) ++damaged_by_growing;
        if (!grown) return;
        grown[0] = 1;
        grown[bytes - 1] = 2;
        buffer = {grown, bytes};
        if (bytes > kLargest) {
          --growing;
          bytes_asked += bytes;
        }
      }
      for (auto& buffer : buffers) free(buffer.block);
    }
    asked += bytes_asked;
  });
}

void realloc_storm(Report& report, Amount amount) {
  const std::size_t rounds = amount.of(100, 5);
  const std::uint64_t began = monotonic_ns();
  grow_and_drop(rounds);
  const double mib = static_cast<double>(asked) / (1 << 20);
  report.fact("realloc_storm", static_cast<double>(monotonic_ns() - began) / 1e9, "s");
  if (damaged_by_growing) return report.fail("realloc lost contents %zu times", damaged_by_growing.load());
  std::uint64_t calls = 0;
  if (!count_memory_calls(grow_and_drop, rounds, calls)) return report.fact("realloc_system_calls", "not counted here");
  report.fact("realloc_calls_per_mib", static_cast<double>(calls) / mib, "1/MiB");
  constexpr double kMany =
      8;  // a buffer of 512 KiB that is mapped, moved at each of its last steps and unmapped needs 12
  if (static_cast<double>(calls) / mib > kMany)
    report.note("growing buffers costs %.1f system calls per MiB", static_cast<double>(calls) / mib);
}

void accounting(Report& report, Amount amount) {
  Dl_info serving{}, other{};
  const bool known = dladdr(dlsym(RTLD_DEFAULT, "malloc"), &serving) &&
                     dladdr(dlsym(RTLD_DEFAULT, "mallinfo2"), &other) &&
                     std::strcmp(serving.dli_fname, other.dli_fname) == 0;
  if (!known) return report.skip("the library has no mallinfo2");
  const auto in_use = [] {
    return static_cast<double>(mallinfo2().uordblks) + static_cast<double>(mallinfo2().hblkhd);
  };
  const double empty = in_use();
  constexpr std::size_t kBlocks = 10'000, kBytes = 1'000;
  static void* blocks[kBlocks];
  for (void*& block : blocks) block = malloc(kBytes);
  const double held = in_use() - empty;
  for (void* block : blocks) free(block);
  report.fact("accounted", 100 * held / (kBlocks * kBytes), "%");
  const std::size_t threads = amount.of(100'000, 20);
  const double before = in_use();
  for (std::size_t i = 0; i < threads; ++i) {
    on_threads(1, [](std::size_t) {
      void* few[20];
      for (std::size_t b = 0; b < 20; ++b) few[b] = malloc(10 + b * b * 5);
      for (void* block : few) free(block);
    });
  }
  const double drift = in_use() - before;
  report.fact("accounting_drift", drift / static_cast<double>(threads), "B");
  if (drift > 1e6 || drift < -1e6)
    report.fail("after %zu threads that freed all, mallinfo2 says %+.1f MiB in use", threads, drift / (1 << 20));
  else if (held < 0.5 * kBlocks * kBytes || held > 2.0 * kBlocks * kBytes)
    report.note("with 10 MB in use mallinfo2 says %+.1f MB", held / 1e6);
}

void reports_while_busy(Report& report, Amount amount) {
  // A refusal tells the library that address space is short: then what becomes empty may go back at once.
  constexpr std::size_t kRoom = std::size_t{1} << 30, kBlocks = 200;
  const rlimit limit{used_of(RLIMIT_AS) + kRoom, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return report.skip("no limit of address space can be set here");
  volatile std::size_t too_much = 4 * kRoom;
  free(malloc(too_much));
  static std::atomic<std::size_t> rounds{0};
  static std::atomic<int> damaged{0};
  const std::size_t wanted = amount.of(3'000, 4);
  on_threads(3, [&](std::size_t index) {
    Random random(9, index);
    void* blocks[kBlocks];
    while (rounds < wanted) {
      if (index == 0) {
        static_cast<void>(mallinfo2());
        malloc_trim(0);
        continue;
      }
      const std::size_t bytes = std::size_t{1000} << random.below(5);
      for (void*& block : blocks) {
        if ((block = malloc(bytes))) fill(block, 64, bytes);
      }
      for (std::size_t i = 0; i < kBlocks; ++i) {
        void* block = blocks[i * 7 % kBlocks];  // each once, in another order
        if (block && !intact(block, 64, bytes)) ++damaged;
        free(block);
      }
      ++rounds;
    }
  });
  if (damaged) report.fail("%d blocks were damaged", damaged.load());
}

constexpr Inner kStormInners[] = {{"many-at-once", many_at_once}};

constexpr Case kStormCases[] = {
    {"stress", "thread-storm", "threads come and go at full rate and free each other's blocks", thread_storm},
    {"stress", "realloc-storm", "buffers grow side by side in 4 threads; system calls are counted", realloc_storm},
    {"stress", "reports-while-busy",
     "mallinfo2 and malloc_trim while 2 threads fill and empty, with little address space", reports_while_busy},
    {"memory", "many-threads", "10,000 threads at once: memory and page tables of each, beside glibc", threads_at_once},
    {"memory", "accounting", "mallinfo2 before and after 100,000 short threads", accounting},
};

}  // namespace

std::span<const Inner> storm_inners() { return kStormInners; }
std::span<const Case> storm_cases() { return kStormCases; }

}  // namespace heapyard::check
