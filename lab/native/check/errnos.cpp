// SPDX-License-Identifier: Apache-2.0
// What each function leaves in errno when it refuses, row by row as glibc does on this machine.
#include <malloc.h>

#include <cerrno>

#include "inner.hpp"
#include "support.hpp"

extern "C" void* pvalloc(std::size_t);

namespace heapyard::check {
namespace {

constexpr std::size_t kHuge = PTRDIFF_MAX, kMost = SIZE_MAX, kRoom = 16u << 20, kAboveRoom = 64u << 20;
void* old_block = nullptr;

// posix_memalign gives its error back and need not touch errno.
void* by_posix(std::size_t alignment, std::size_t bytes) {
  void* block = nullptr;
  errno = posix_memalign(&block, opaque(alignment), opaque(bytes));
  return block;
}

struct Row {
  const char* words;
  void* (*call)();
  bool standard;  // ISO C or POSIX
};

constexpr Row kRows[] = {
    {"malloc of PTRDIFF_MAX", [] { return malloc(opaque(kHuge)); }, true},
    {"malloc of SIZE_MAX", [] { return malloc(opaque(kMost)); }, true},
    {"calloc whose product overflows", [] { return calloc(opaque(kMost / 2), 3); }, true},
    {"calloc of SIZE_MAX", [] { return calloc(1, opaque(kMost)); }, true},
    {"realloc to SIZE_MAX", [] { return realloc(old_block, opaque(kMost)); }, true},
    {"realloc to PTRDIFF_MAX", [] { return realloc(old_block, opaque(kHuge)); }, true},
    {"reallocarray whose product overflows", [] { return reallocarray(old_block, opaque(kMost / 2), 4); }, true},
    {"aligned_alloc of PTRDIFF_MAX", [] { return aligned_alloc(64, opaque(kHuge & ~std::size_t{63})); }, true},
    {"aligned_alloc at 24", [] { return aligned_alloc(opaque(24ul), 48); }, true},
    {"posix_memalign at 0", [] { return by_posix(0, 64); }, true},
    {"posix_memalign at 4", [] { return by_posix(4, 64); }, true},
    {"posix_memalign at 24", [] { return by_posix(24, 64); }, true},
    {"posix_memalign of SIZE_MAX", [] { return by_posix(64, kMost); }, true},
    {"memalign of SIZE_MAX", [] { return memalign(64, opaque(kMost - 100)); }, false},
    {"memalign at more than half of all", [] { return memalign(opaque(kMost / 2 + 2), 1); }, false},
    {"valloc of SIZE_MAX", [] { return valloc(opaque(kMost)); }, false},
    {"pvalloc of SIZE_MAX", [] { return pvalloc(opaque(kMost)); }, false},
    {"malloc beyond RLIMIT_AS", [] { return malloc(kAboveRoom); }, true},
    {"calloc beyond RLIMIT_AS", [] { return calloc(64, kAboveRoom / 64); }, true},
    {"realloc beyond RLIMIT_AS", [] { return realloc(old_block, kAboveRoom); }, true},
    {"aligned_alloc beyond RLIMIT_AS", [] { return aligned_alloc(4096, kAboveRoom); }, true},
    {"posix_memalign beyond RLIMIT_AS", [] { return by_posix(4096, kAboveRoom); }, true},
    {"memalign beyond RLIMIT_AS", [] { return memalign(4096, kAboveRoom); }, false},
};
constexpr std::size_t kRowCount = std::size(kRows);
static_assert(kRowCount < kAnswers);
constexpr double kGaveBlock = -1;

int try_all(Answers& answers, std::size_t) {
  old_block = malloc(100);
  const rlimit limit{used_of(RLIMIT_AS) + kRoom, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 9;
  for (std::size_t i = 0; i < kRowCount; ++i) {
    answers.values[kRowCount] = static_cast<double>(i);
    errno = 0;
    void* block = kRows[i].call();
    answers.values[i] = block ? kGaveBlock : errno;
    if (!block) continue;
    if (std::strncmp(kRows[i].words, "realloc", 7) == 0)
      old_block = block;
    else
      free(block);
  }
  return 0;
}

void as_glibc(Report& report, Amount) {
  Wishes wishes;
  const Ending own = run_inner("errnos", wishes);
  wishes.under = Under::kGlibc;
  const Ending glibc = run_inner("errnos", wishes);
  if (!glibc.well()) return report.skip("under glibc the program %s", glibc.words());
  if (!own.well())
    return report.fail("%s: the program %s", kRows[static_cast<std::size_t>(own.values[kRowCount])].words, own.words());
  std::size_t others = 0;
  for (std::size_t i = 0; i < kRowCount; ++i) others += own.values[i] != glibc.values[i];
  report.fact("refusals_unlike_glibc", static_cast<double>(others), "");
  for (const bool standard : {true, false}) {
    for (std::size_t i = 0; i < kRowCount; ++i) {
      const double got = own.values[i], wanted = glibc.values[i];
      // What glibc grants may be refused: a later glibc does so too.
      if (got == wanted || wanted == kGaveBlock || kRows[i].standard != standard) continue;
      char text[200];
      const auto name = [](double value) {
        return value == 0 ? "0" : value == ENOMEM ? "ENOMEM" : value == EINVAL ? "EINVAL" : "another value";
      };
      if (got == kGaveBlock)
        std::snprintf(text, sizeof text, "%s gives a block, which glibc refuses with %s", kRows[i].words, name(wanted));
      else
        std::snprintf(text, sizeof text, "%s is refused with errno %s, by glibc with %s", kRows[i].words, name(got),
                      name(wanted));
      if (standard)
        report.fail("%s", text);
      else
        report.note("%s", text);
    }
  }
}

constexpr Inner kErrnoInners[] = {{"errnos", try_all}};
constexpr Case kErrnoCases[] = {
    {"conformance", "errno-of-refusals", "every function refuses with the errno that glibc leaves", as_glibc}};

}  // namespace

std::span<const Inner> errno_inners() { return kErrnoInners; }
std::span<const Case> errno_cases() { return kErrnoCases; }

}  // namespace heapyard::check
