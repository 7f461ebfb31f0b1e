// SPDX-License-Identifier: Apache-2.0
// How much of a limit reaches the program: what is served under it, as a share of what glibc serves under the same one.
#include <sys/resource.h>

#include <algorithm>

#include "inner.hpp"
#include "memory_group.hpp"
#include "support.hpp"

namespace heapyard::check {
namespace {

constexpr std::size_t kRoom = std::size_t{192} << 20;  // below the limit
constexpr std::size_t kSizes[] = {64, 1'000, 20'000, 300'000};
constexpr std::size_t kCount = std::size(kSizes);

// A program that fits into half of a limit under glibc must fit into all of it.
constexpr double kTooLittle = 50, kLittle = 80;  // %

void limit_address_space() {
  const rlimit limit{kRoom, kRoom};
  setrlimit(RLIMIT_AS, &limit);
}
void limit_data() {
  const rlimit limit{kRoom, kRoom};
  setrlimit(RLIMIT_DATA, &limit);
}

// Bytes that can be had in blocks of one size. They are chained through themselves and freed again.
std::size_t serve(std::size_t bytes, std::size_t most) {
  void** chain = nullptr;
  std::size_t served = 0;
  for (; served < most; served += bytes) {
    auto* block = static_cast<void**>(malloc(bytes));
    if (!block) break;
    *block = chain;
    chain = block;
  }
  while (chain) {
    void** next = static_cast<void**>(*chain);
    free(chain);
    chain = next;
  }
  return served;
}

// Serves each size until there is no more: up, and down again. Argument: a limit to be set now, or none.
int serve_all(Answers& answers, std::size_t resource) {
  free(malloc(100));  // what a heap reserves at its first call is not limited here, where the limit comes later
  if (resource != RLIM_NLIMITS) {
    const rlimit limit{used_of(static_cast<int>(resource)) + kRoom, RLIM_INFINITY};
    if (setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return 9;
  }
  for (std::size_t i = 0; i < kCount; ++i) answers.values[i] = static_cast<double>(serve(kSizes[i], 2 * kRoom));
  for (std::size_t i = kCount; i-- > 0;) answers.values[kCount + i] = static_cast<double>(serve(kSizes[i], 2 * kRoom));
  return 0;
}

// The worst of the sizes, in per cent.
struct Share {
  double percent = 1e9;
  std::size_t bytes = 0;
  void see(double part, double whole, std::size_t size) {
    const double share = whole > 0 ? 100 * part / whole : 100;
    if (share < percent) *this = {share, size};
  }
};

void judge(Report& report, const Share& share, const char* under, const char* of_what) {
  if (share.percent < kTooLittle)
    report.fail("%s: %.0f %% of the blocks of %zu bytes that %s", under, share.percent, share.bytes, of_what);
  else if (share.percent < kLittle)
    report.note("%s: %.0f %% of the blocks of %zu bytes that %s", under, share.percent, share.bytes, of_what);
}

void served(Report& report, const char* limit, int resource, void (*before_start)()) {
  char name[40], what[120];
  for (const bool from_start : {false, true}) {
    Wishes wishes{.argument = static_cast<std::size_t>(from_start ? RLIM_NLIMITS : resource),
                  .before_exec = from_start ? before_start : nullptr};
    const Ending own = run_inner("serve", wishes);
    wishes.under = Under::kGlibc;
    const Ending glibc = run_inner("serve", wishes);
    if (!glibc.well()) return report.skip("under glibc the program %s", glibc.words());
    const char* when = from_start ? "from the start" : "set later";
    if (!own.well()) return report.fail("a program under %s %s %s", limit, when, own.words());
    Share share, again;
    for (std::size_t i = 0; i < kCount; ++i) {
      share.see(own.values[i], glibc.values[i], kSizes[i]);
      again.see(own.values[kCount + i], own.values[i], kSizes[i]);
    }
    std::snprintf(name, sizeof name, "served%s", from_start ? "_from_start" : "");
    report.fact(name, share.percent, "%");
    std::snprintf(name, sizeof name, "served_again%s", from_start ? "_from_start" : "");
    report.fact(name, again.percent, "%");
    std::snprintf(what, sizeof what, "%s %s", limit, when);
    judge(report, share, what, "glibc has are served");
    judge(report, again, what, "were served are served again, after all sizes were freed");
  }
}

void served_address_space(Report& report, Amount) { served(report, "RLIMIT_AS", RLIMIT_AS, limit_address_space); }
void served_data(Report& report, Amount) { served(report, "RLIMIT_DATA", RLIMIT_DATA, limit_data); }

// Threads at once, each with blocks of its own, in little address space.
constexpr std::size_t kThreads = 100, kStack = 128u << 10;

int many_in_little(Answers& answers, std::size_t) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  static pthread_t threads[kThreads];
  static std::atomic<int> refused{0};
  static pthread_barrier_t all;
  pthread_barrier_init(&all, nullptr, kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    const auto body = [](void*) -> void* {
      void* blocks[50];
      for (std::size_t b = 0; b < 50; ++b) {
        if ((blocks[b] = malloc(16 + b * 40)))
          fill(blocks[b], 16 + b * 40, b);
        else
          ++refused;
      }
      pthread_barrier_wait(&all);
      for (void* block : blocks) free(block);
      return nullptr;
    };
    if (pthread_create(&threads[i], &attributes, body, nullptr) != 0) _exit(4);
    answers.values[0] = static_cast<double>(i + 1);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  answers.values[1] = refused;
  return refused ? 5 : 0;
}

void threads_in_little(Report& report, Amount) {
  Wishes wishes{.before_exec = limit_address_space};
  const Ending own = run_inner("threads-in-little", wishes);
  wishes.under = Under::kGlibc;
  if (const Ending glibc = run_inner("threads-in-little", wishes); !glibc.well())
    return report.skip("under glibc the program %s", glibc.words());
  report.fact("threads_started", own.values[0], "");
  if (own.how == Ending::How::kExited && own.detail == 5)
    report.fail("%.0f blocks were refused to 100 threads in 192 MiB of address space; glibc has them all",
                own.values[1]);
  else if (own.how == Ending::How::kExited && own.detail == 4)
    report.fail("thread %.0f of 100 could not be started in 192 MiB of address space; glibc starts them all",
                own.values[0] + 1);
  else if (!own.well())
    report.fail("a program with 100 threads in 192 MiB of address space %s; under glibc it ends well", own.words());
}

// 24 MiB live at most, of all sizes, by four threads, for a while.
int live_in_group(Answers& answers, std::size_t steps) {
  constexpr std::size_t kLive = 6u << 20;
  on_threads(4, [&](std::size_t index) {
    constexpr std::size_t kSlots = 4'000;
    struct Slot {
      void* block;
      std::size_t bytes;
    };
    auto* slots = map_array<Slot>(kSlots);
    Random random(7, index);
    std::size_t live = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      Slot& slot = slots[random.below(kSlots)];
      free(slot.block);
      live -= slot.bytes;
      slot = {};
      const std::size_t bytes = 16 + random.below(random.percent(3) ? 100'000 : 2'000);
      if (live + bytes > kLive || !(slot.block = malloc(bytes))) continue;
      std::memset(slot.block, 1, bytes);
      slot.bytes = bytes;
      live += bytes;
    }
    for (std::size_t i = 0; i < kSlots; ++i) free(slots[i].block);
  });
  answers.values[0] = 1;
  return 0;
}

void group_limit(Report& report, Amount amount) {
  constexpr std::size_t kLimit = 64u << 20;
  char reason[160];
  if (!MemoryGroup::make(kLimit, reason, sizeof reason)) return report.skip("%s", reason);
  Wishes wishes{.argument = amount.of(200'000, 4), .before_exec = MemoryGroup::enter};
  const Ending own = run_inner("live-in-group", wishes);
  const double peak = MemoryGroup::peak();
  MemoryGroup::remove();
  MemoryGroup::make(kLimit, reason, sizeof reason);
  wishes.under = Under::kGlibc;
  const Ending glibc = run_inner("live-in-group", wishes);
  const double of_glibc = MemoryGroup::peak();
  MemoryGroup::remove();
  if (!glibc.well()) return report.skip("under glibc the program %s", glibc.words());
  report.fact("group_peak", peak / (1 << 20), "MiB");
  report.fact("group_peak_of_glibc", of_glibc / (1 << 20), "MiB");
  if (!own.well())
    report.fail("with 24 MiB live in a container of 64 MiB the program %s; under glibc it ends well", own.words());
}

constexpr Inner kShareInners[] = {
    {"serve", serve_all}, {"threads-in-little", many_in_little}, {"live-in-group", live_in_group}};

constexpr Case kShareCases[] = {
    {"limits", "served-address-space", "how much is served under RLIMIT_AS, set later or from the start, beside glibc",
     served_address_space},
    {"limits", "served-data", "the same under RLIMIT_DATA", served_data},
    {"limits", "many-threads", "100 threads at once in 192 MiB of address space, as glibc has them", threads_in_little},
    {"limits", "container", "24 MiB live in a control group of 64 MiB, where glibc lives", group_limit},
};

}  // namespace

std::span<const Inner> share_inners() { return kShareInners; }
std::span<const Case> share_cases() { return kShareCases; }

}  // namespace heapyard::check
