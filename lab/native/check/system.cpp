// SPDX-License-Identifier: Apache-2.0
// What a heap asks of the kernel: page tables, huge pages, mappings, locked memory, commit charge; and of an emulator.
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "inner.hpp"
#include "support.hpp"

#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/enabled"
#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"

namespace heapyard::check {
namespace {

// The first line of a small file, "" if there is none.
const char* line_of(const char* path) {
  static char text[200];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = 0;
  text[std::strcspn(text, "\n")] = 0;
  return text;
}

// Both ends, or the report says why there is no comparison.
struct Pair {
  Ending own, glibc;
  bool comparable = false;
};
Pair beside_glibc(Report& report, const char* inner, const char* who, Wishes wishes) {
  Pair pair;
  pair.own = run_inner(inner, wishes);
  wishes.under = Under::kGlibc;
  pair.glibc = run_inner(inner, wishes);
  if (!pair.glibc.well())
    report.skip("under glibc %s %s", who, pair.glibc.words());
  else if (!pair.own.well())
    report.fail("%s %s; under glibc it ends well", who, pair.own.words());
  else
    pair.comparable = true;
  return pair;
}

// A heap of small blocks and some large ones, of which four in five go again. Tells resident memory and page tables.
int mixed(Answers& answers, std::size_t blocks) {
  void** held = map_array<void*>(blocks);
  Random random(6);
  const auto before = resident();
  double live = 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t bytes = 16 + random.below(random.percent(1) ? 50'000 : 1'000);
    std::memset(held[i] = malloc(bytes), 1, bytes);
    if (random.percent(80)) {
      free(held[i]);
      held[i] = nullptr;
    } else {
      live += static_cast<double>(bytes);
    }
  }
  const auto now = resident();
  answers.values[0] = static_cast<double>(now > before ? now - before : 0);
  answers.values[1] = live;
  answers.values[2] = static_cast<double>(status_field("VmPTE:"));
  answers.values[3] = static_cast<double>(now);
  return 0;
}

void page_tables(Report& report, Amount amount) {
  const auto [own, glibc, comparable] =
      beside_glibc(report, "mixed", "a program of small and large blocks", {.argument = amount.of(400'000, 4)});
  if (!comparable) return;
  const double share = 100 * own.values[2] / own.values[3], of_glibc = 100 * glibc.values[2] / glibc.values[3];
  report.fact("page_tables", share, "%");
  report.fact("page_tables_of_glibc", of_glibc, "%");
  if (share > 50)
    report.fail("page tables take %.0f %% on top of resident memory, %.1f %% under glibc", share, of_glibc);
  else if (share > 3 && share > 3 * of_glibc)
    report.note("page tables take %.1f %% on top of resident memory, %.1f %% under glibc", share, of_glibc);
}

constexpr std::size_t kSparseBytes = 150'000;

// Large blocks of which the program touches one byte each.
int sparse(Answers& answers, std::size_t blocks) {
  const std::size_t before = resident();
  for (std::size_t i = 0; i < blocks; ++i) {
    auto* block = static_cast<char*>(malloc(kSparseBytes));
    if (!block) return 4;
    block[0] = 1;
  }
  answers.values[0] = static_cast<double>(resident() - before);
  return 0;
}

void without_huge_pages() { prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); }

void sparse_and_small(Report& report, Amount amount, const char* mode, void (*before_exec)() = nullptr) {
  const std::size_t blocks = amount.of(10'000, 5);
  char who[120], name[40], words[16];
  std::snprintf(words, sizeof words, "%s", mode);
  std::replace(words, words + sizeof words, '_', ' ');
  std::snprintf(who, sizeof who, "a program with %zu large blocks, one byte of each used (huge pages %s),", blocks,
                words);
  const Pair large = beside_glibc(report, "sparse", who, {.argument = blocks, .before_exec = before_exec});
  if (!large.comparable) return;
  const double own = large.own.values[0], glibc = large.glibc.values[0];
  std::snprintf(name, sizeof name, "sparse_%s", mode);
  report.fact(name, own / kMiB, "MiB");
  std::snprintf(name, sizeof name, "sparse_%s_of_glibc", mode);
  report.fact(name, glibc / kMiB, "MiB");
  const double all = static_cast<double>(blocks * kSparseBytes);
  if (own > all / 2 && own > 4 * glibc)
    report.fail("%s takes %.0f MiB, %.0f under glibc", who, own / kMiB, glibc / kMiB);
  else if (own > 3 * glibc + 16 * kMiB)
    report.note("%s takes %.0f MiB, %.0f under glibc", who, own / kMiB, glibc / kMiB);

  const Pair small =
      beside_glibc(report, "mixed", "a program of small blocks", {.argument = 20'000, .before_exec = before_exec});
  if (!small.comparable) return;
  std::snprintf(name, sizeof name, "small_%s", mode);
  report.fact(name, small.own.values[0] / kMiB, "MiB");
  std::snprintf(name, sizeof name, "small_%s_of_glibc", mode);
  report.fact(name, small.glibc.values[0] / kMiB, "MiB");
  if (small.own.values[0] > 4 * small.glibc.values[0] + 16 * kMiB)
    report.note("a program with %.1f MiB live (huge pages %s) takes %.0f MiB, under glibc %.0f MiB",
                small.own.values[1] / kMiB, words, small.own.values[0] / kMiB, small.glibc.values[0] / kMiB);
}

void huge_pages(Report& report, Amount amount) {
  sparse_and_small(report, amount, "as_set");
  sparse_and_small(report, amount, "never", without_huge_pages);
}

void always_huge_pages(Report& report, Amount amount) {
  if (!std::strstr(line_of(HUGE_PAGES), "[always]"))
    return report.skip("huge pages are not always given here; --change-system sets that (as root) and puts it back");
  sparse_and_small(report, amount, "always");
}

constexpr std::size_t kMapped = 200u << 10, kMostMappings = 200'000;

// Blocks that need a mapping or a part of one; every second one goes, so that the rest are mappings of their own.
int near_map_limit(Answers& answers, std::size_t blocks) {
  auto** held = map_array<char*>(blocks);
  std::size_t count = 0;
  for (; count < blocks; ++count) {
    errno = 0;
    if (!(held[count] = static_cast<char*>(malloc(kMapped)))) break;
    *held[count] = 1;
    answers.values[0] = static_cast<double>(count + 1);
  }
  if (count < blocks && errno != ENOMEM) return 4;
  for (std::size_t i = 0; i < count; i += 2) free(held[i]);
  answers.values[1] = 1;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 1'000; ++i) {
    for (const std::size_t bytes : {100ul, 10'000ul, 1'000'000ul}) {
      errno = 0;
      void* block = malloc(bytes);
      if (block)
        *static_cast<char*>(block) = 1;
      else if (errno != ENOMEM)
        return 4;
      else
        ++refused;
      free(block);
    }
  }
  answers.values[2] = static_cast<double>(refused);
  for (std::size_t i = 1; i < count; i += 2) {
    if (*held[i] != 1) return 5;
    free(held[i]);
  }
  // All is free again: what was served before must be served now.
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 1'000); ++i) {
    if (!malloc(kMapped)) return 6;
  }
  return 0;
}

void many_mappings(Report& report, Amount) {
  const std::size_t limit = std::strtoul(line_of("/proc/sys/vm/max_map_count"), nullptr, 10);
  const std::size_t blocks = std::min(2 * limit + 10'000, kMostMappings);
  // Huge pages have a case of their own.
  Wishes wishes{.argument = blocks, .before_exec = without_huge_pages, .seconds = 40};
  const Ending own = run_inner("near-map-limit", wishes);
  wishes.under = Under::kGlibc;
  const Ending glibc = run_inner("near-map-limit", wishes);
  report.fact("mapped_blocks", own.values[0], "");
  report.fact("mapped_blocks_of_glibc", glibc.values[0], "");
  report.fact("refused_near_map_limit", own.values[2], "times");
  constexpr const char* kDone[] = {"was serving", "had freed every second"};
  const bool exited = own.how == Ending::How::kExited;
  if (exited && own.detail == 4)
    report.fail("malloc near the limit of mappings gave null with an errno that is not ENOMEM");
  else if (exited && own.detail == 5)
    report.fail("a block was damaged near the limit of mappings");
  else if (exited && own.detail == 6)
    report.fail("after the limit of mappings was met and all was freed, blocks of 200 KiB are refused");
  else if (!own.well())
    report.fail("a program with %.0f blocks of 200 KiB %s when it %s", own.values[0], own.words(),
                kDone[own.values[1] > 0]);
  else if (own.values[0] < 0.75 * glibc.values[0])
    report.note("%.0f blocks of 200 KiB fit below the limit of mappings, %.0f under glibc", own.values[0],
                glibc.values[0]);
}

constexpr std::size_t kLockable = 256u << 20;

// Without the privilege to lock more than the limit: a heap that maps much is refused, and harms nobody.
bool limit_locking() {
  const rlimit limit{kLockable, kLockable};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  for (auto* set : {&data[0].effective, &data[0].permitted}) *set &= ~(1u << CAP_IPC_LOCK);
  if (syscall(SYS_capset, &header, data) != 0 || syscall(SYS_capget, &header, data) != 0) return false;
  return !(data[0].effective & (1u << CAP_IPC_LOCK));
}

// Where that limit may not be raised but the privilege is there: the same two rules, by address space. The kernel
// refuses to lock a process that has mapped more than the limit, and to map more than it afterwards.
bool limit_by_space() {
  if (used_of(RLIMIT_AS) > kLockable) {
    errno = ENOMEM;
    return false;
  }
  const rlimit limit{kLockable, kLockable};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

int lock_all(Answers& answers, std::size_t) {
  free(malloc(100));
  if ((!limit_locking() && !limit_by_space()) || mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    answers.values[0] = errno;
    return 6;
  }
  Random random(8);
  for (std::size_t held = 0; held < 20u << 20;) {
    const std::size_t bytes = 16 + random.below(random.percent(2) ? 200'000 : 2'000);
    void* block = malloc(bytes);
    if (!block) return 7;
    std::memset(block, 1, bytes);
    held += bytes;
  }
  answers.values[1] = static_cast<double>(status_field("VmLck:"));
  return 0;
}

void locked(Report& report, Amount) {
  const Ending own = run_inner("lock-all");
  const Ending glibc = run_inner("lock-all", {.under = Under::kGlibc});
  if (!glibc.well()) return report.skip("256 MiB may not be locked here");
  const bool exited = own.how == Ending::How::kExited;
  if (exited && own.detail == 6)
    return report.fail("mlockall with a limit of 256 MiB is refused (%s); under glibc it is not",
                       strerror(static_cast<int>(own.values[0])));
  if (exited && own.detail == 7)
    return report.fail("after mlockall, with a limit of 256 MiB, 20 MiB cannot be allocated; under glibc they can");
  if (!own.well()) return report.fail("a program that locks its memory %s; under glibc it ends well", own.words());
  report.fact("locked", own.values[1] / kMiB, "MiB");
  report.fact("locked_of_glibc", glibc.values[1] / kMiB, "MiB");
  if (own.values[1] > 3 * glibc.values[1])
    report.note("mlockall of a program with 20 MiB live locks %.0f MiB, %.0f under glibc", own.values[1] / kMiB,
                glibc.values[1] / kMiB);
}

// 64 MiB in use. Tells what counts against the limit of a kernel that does not overcommit: private and writable.
int charge(Answers& answers, std::size_t) {
  for (std::size_t i = 0; i < 64; ++i) {
    void* block = malloc(1u << 20);
    if (!block) return 4;
    std::memset(block, 1, 1u << 20);
  }
  std::thread([] { free(malloc(1'000)); }).join();
  answers.values[0] = static_cast<double>(status_field("VmData:"));
  return 0;
}

double commit_limit() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  char line[200];
  unsigned long kib = 0;
  while (file && std::fgets(line, sizeof line, file)) {
    if (std::sscanf(line, "CommitLimit: %lu", &kib) == 1) break;
  }
  if (file) std::fclose(file);
  return static_cast<double>(kib) * 1024;
}

void strict_overcommit(Report& report, Amount) {
  const bool strict = std::atoi(line_of(OVERCOMMIT)) == 2;
  report.fact("strict_overcommit", strict ? "set" : "not set here: judged by what the kernel would charge");
  const auto [own, glibc, comparable] = beside_glibc(
      report, "charge",
      strict ? "a program with 64 MiB in use, where the kernel does not overcommit," : "a program with 64 MiB in use",
      {});
  if (!comparable) return;
  report.fact("charged", own.values[0] / kMiB, "MiB");
  report.fact("charged_of_glibc", glibc.values[0] / kMiB, "MiB");
  const double limit = commit_limit();
  if (!strict && limit > 0 && own.values[0] > limit)
    report.note("under vm.overcommit_memory=2 the kernel would charge %.0f MiB for 64 in use; this machine has %.0f",
                own.values[0] / kMiB, limit / kMiB);
  else if (own.values[0] > 3 * glibc.values[0] + 64 * kMiB)
    report.note("under vm.overcommit_memory=2 the kernel charges %.0f MiB for 64 in use, %.0f under glibc",
                own.values[0] / kMiB, glibc.values[0] / kMiB);
}

int trivial(Answers& answers, std::size_t) {
  for (std::size_t bytes = 16; bytes < 100'000; bytes *= 2) std::memset(malloc(bytes), 1, bytes);
  answers.values[0] = 1;
  return 0;
}

void emulated(Report& report, Amount) {
#if defined(__x86_64__)
  const char* emulator = nullptr;
  for (const char* path : {"/usr/bin/qemu-x86_64", "/usr/bin/qemu-x86_64-static", "/usr/local/bin/qemu-x86_64"}) {
    if (access(path, X_OK) == 0) {
      emulator = path;
      break;
    }
  }
  if (!emulator) return report.skip("there is no qemu-x86_64 here (Debian's package qemu-user)");
  const auto [own, glibc, comparable] =
      beside_glibc(report, "trivial", "a small program under qemu-x86_64",
                   {.emulator = emulator, .seconds = 30, .most_resident = std::size_t{2} << 30});
  if (!comparable) return;
  const auto resident_own = static_cast<double>(own.resident), of_glibc = static_cast<double>(glibc.resident);
  report.fact("emulated_resident", resident_own / kMiB, "MiB");
  report.fact("emulated_resident_of_glibc", of_glibc / kMiB, "MiB");
  if (resident_own > 3 * of_glibc + 64 * kMiB)
    report.note("a small program under qemu-x86_64 takes %.0f MiB, %.0f under glibc", resident_own / kMiB,
                of_glibc / kMiB);
#else
  report.skip("qemu-x86_64 is tried on x86-64 alone");
#endif
}

constexpr Inner kSystemInners[] = {{"mixed", mixed},       {"sparse", sparse}, {"near-map-limit", near_map_limit},
                                   {"lock-all", lock_all}, {"charge", charge}, {"trivial", trivial}};

constexpr Case kSystemCases[] = {
    {"system", "page-tables", "page tables of a program of small and large blocks, over its resident memory",
     page_tables},
    {"system", "huge-pages", "large blocks of which one byte is used, and small ones: resident memory beside glibc",
     huge_pages},
    {"system", "huge-pages-always", "the same where the kernel always gives huge pages", always_huge_pages, false,
     HUGE_PAGES "=always"},
    {"system", "many-mappings", "blocks of 200 KiB up to the kernel's limit of mappings, and holes between them",
     many_mappings},
    {"system", "mlockall", "a program that locks its memory, 256 MiB at most and without privilege", locked},
    {"system", "strict-overcommit", "what a kernel that does not overcommit charges, or refuses", strict_overcommit,
     false, OVERCOMMIT "=2"},
    {"system", "emulator", "a small program under qemu-x86_64: resident memory beside glibc", emulated},
};

}  // namespace

std::span<const Inner> system_inners() { return kSystemInners; }
std::span<const Case> system_cases() { return kSystemCases; }

}  // namespace heapyard::check
