// SPDX-License-Identifier: Apache-2.0
// The longest single call, on heaps made hard for it: how does it grow with the heap?
//
// Each scenario builds a heap of n blocks and then makes calls that have much to do if anything has. Instructions are
// counted, not time (stepping.hpp): a bound holds or it does not. The sequences are those that published faults were
// found with: bulk frees before a large request (consolidation), many free blocks of close sizes (searching a list),
// blocks freed by another thread (draining a queue), one block left in each page (walking pages), and a seeded search
// over mixtures of them.
#include <thread>

#include "stepping.hpp"
#include "support.hpp"

namespace heapyard::check {
namespace {

enum Scenario : std::size_t { kBulk, kCloseSizes, kRemote, kSparsePages, kMixture, kScenarios };
constexpr const char* kNames[kScenarios] = {"bulk_free", "close_sizes", "remote_free", "sparse_pages", "mixture"};

// Calls counted per scenario: the first few after the heap was made are the ones that pay for it.
constexpr std::size_t kCounted = 40;
constexpr std::size_t kMostLarge = 300'000;  // blocks of several kilobytes: a gigabyte and a half
constexpr std::uint64_t kUsual = 200'000;    // instructions counted of a scenario: some seconds

void* counted_malloc(Steps& steps, std::size_t bytes) {
  begin_counting(steps);
  void* block = malloc(bytes);
  end_counting(steps);
  return block;
}
void counted_free(Steps& steps, void* block) {
  begin_counting(steps);
  free(block);
  end_counting(steps);
}

// Sizes after a heap was made: small ones, some of each threshold, and large ones that no bin serves.
std::size_t asked(Random& random) {
  constexpr std::size_t kSizes[] = {24, 64, 120, 500, 520, 1000, 1100, 4000, 9000, 33'000, 70'000, 140'000};
  return kSizes[random.below(std::size(kSizes))] + random.below(8);
}

void work(Steps& steps, std::size_t argument) {
  const std::size_t n = argument >> 8 & 0xffffffff;
  const std::size_t scenario = argument & 0xff;
  Random random(argument >> 40);
  void** blocks = map_array<void*>(n);
  const std::size_t spread = 16 + random.below(n < 1'000'000 ? 2000 : 300);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t bytes = 64;
    if (scenario == kCloseSizes) bytes = 1040 + i * 16 % 8192;
    if (scenario == kSparsePages) bytes = 200;
    if (scenario == kMixture) bytes = 16 + random.below(spread);
    blocks[i] = malloc(bytes);
    std::memset(blocks[i], 1, 16);
  }
  const auto release = [&](std::size_t first, std::size_t stride) {
    for (std::size_t i = first; i < n; i += stride) {
      free(blocks[i]);
      blocks[i] = nullptr;
    }
  };
  if (scenario == kRemote) std::thread([&] { release(0, 1); }).join();
  if (scenario == kBulk) release(0, 1);
  if (scenario == kCloseSizes) release(0, 2);
  if (scenario == kSparsePages) {
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 20 == 0) continue;
      free(blocks[i]);
      blocks[i] = nullptr;
    }
  }
  if (scenario == kMixture) {
    for (std::size_t i = 0; i < n; ++i) {
      if (random.percent(70)) {
        free(blocks[i]);
        blocks[i] = nullptr;
      }
    }
  }
  void* held[kCounted];
  for (std::size_t i = 0; i < kCounted; ++i) held[i] = counted_malloc(steps, asked(random));
  for (std::size_t i = 0; i < kCounted; ++i) counted_free(steps, held[i]);
  for (std::size_t i = 0, at = 0; i < n && at < kCounted; ++i) {
    if (blocks[i] == nullptr) continue;
    counted_free(steps, blocks[i]);
    ++at;
  }
}

void growth(Report& report, Amount amount) {
  if (!kSteppingWorks) return report.note("instructions can be counted on x86-64 only");
  const std::size_t most = amount.quick ? 10'000 : amount.deep ? 10'000'000 : 100'000;
  const std::uint64_t budget = amount.quick ? kUsual / 5 : amount.deep ? kUsual / 2 : kUsual;
  std::uint64_t first = 0, last = 0;
  bool cut = false;
  bool half = true;  // deep: a step of about half a decade, 1,000, 3,000, 10,000, ...
  for (std::size_t n = 1'000; n <= most; n = amount.deep && half ? 3 * n
                                             : amount.deep       ? n / 3 * 10
                                                                 : 10 * n,
                   half = !half) {
    std::uint64_t worst = 0;
    for (std::size_t scenario = 0; scenario < kScenarios; ++scenario) {
      if (scenario == kCloseSizes && n > kMostLarge) continue;
      // The search: mixtures are drawn anew, the hardest one counts.
      for (std::size_t seed = 1; seed <= (scenario == kMixture ? amount.of(5, 2) : 1); ++seed) {
        Steps steps{};
        if (!count_steps(work, seed << 40 | n << 8 | scenario, budget, steps))
          return report.note("single-stepping is not permitted here");
        if (steps.most > worst) worst = steps.most;
        cut |= steps.cut;
        char name[64];
        std::snprintf(name, sizeof name, "%s_%zu", kNames[scenario], n);
        if (seed == 1) report.fact(name, static_cast<double>(steps.most), "instructions");
      }
    }
    char name[64];
    std::snprintf(name, sizeof name, "longest_call_%zu", n);
    report.fact(name, static_cast<double>(worst), "instructions");
    if (n == 1'000) first = worst;
    last = worst;
  }
  report.fact("growth", static_cast<double>(last) / static_cast<double>(first), "x");
  // A heap larger by so much may cost a few levels of a tree more, not a walk over it.
  if (cut)
    report.note("a single call takes more than %llu instructions", static_cast<unsigned long long>(last));
  else if (last > 4 * first)
    report.note("the longest call grows with the heap: %llu instructions, from %llu",
                static_cast<unsigned long long>(last), static_cast<unsigned long long>(first));
}

void fast_path(Report& report, Amount) {
  if (!kSteppingWorks) return report.note("instructions can be counted on x86-64 only");
  const auto pairs = [](Steps& steps, std::size_t bytes) {
    for (int i = 0; i < 100; ++i) free(malloc(bytes));
    for (int i = 0; i < 50; ++i) {
      void* block = counted_malloc(steps, bytes);
      counted_free(steps, block);
    }
  };
  const auto nothing = [](Steps& steps, std::size_t) {
    for (int i = 0; i < 50; ++i) {
      begin_counting(steps);
      end_counting(steps);
    }
  };
  Steps empty{};
  if (!count_steps(nothing, 0, kUsual, empty)) return report.note("single-stepping is not permitted here");
  for (const std::size_t bytes : {16ul, 64ul, 1000ul, 20'000ul}) {
    Steps steps{};
    if (!count_steps(pairs, bytes, kUsual, steps)) return report.note("single-stepping is not permitted here");
    char name[64];
    std::snprintf(name, sizeof name, "pair_%zu", bytes);
    report.fact(name, static_cast<double>(steps.total) / 50 - 2 * static_cast<double>(empty.total) / 50,
                "instructions");
  }
}

constexpr Case kLatencyCases[] = {
    {"latency", "fast-path", "instructions of a malloc and the free that follows it", fast_path},
    {"latency", "longest-call", "instructions of the longest single call, on hard heaps of 1,000 to 100,000 blocks",
     growth},
};

}  // namespace

std::span<const Case> latency_cases() { return kLatencyCases; }

}  // namespace heapyard::check
