// SPDX-License-Identifier: Apache-2.0
// Memory that runs out: null and ENOMEM, nothing lost, and everything works again afterwards.
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <new>

#include "support.hpp"

namespace heapyard::check {
namespace {

bool allow(int resource, std::size_t more) {
  const rlimit limit{used_of(resource) + more, RLIM_INFINITY};
  return setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
}

// Blocks of one size until there are none; the rest of the heap must stay as it was. True if memory ran out properly.
bool exhaust(Report& report, std::size_t bytes, void** blocks, std::size_t most) {
  std::size_t count = 0;
  for (; count < most; ++count) {
    errno = 0;
    blocks[count] = malloc(bytes);
    if (!blocks[count]) break;
    fill(blocks[count], bytes < 64 ? bytes : 64, count);
  }
  const int error = errno;
  if (count == most) return report.note("%zu blocks of %zu bytes fitted below the limit", most, bytes), false;
  if (error != ENOMEM)
    report.fail("malloc of %zu bytes without memory left errno at %d instead of ENOMEM", bytes, error);
  if (void* block = calloc(1, bytes + (1u << 26))) free(block);
  if (count) {
    void* grown = realloc(blocks[0], bytes + (1u << 26));
    if (grown)
      blocks[0] = grown;
    else if (!intact(blocks[0], bytes < 64 ? bytes : 64, 0))
      report.fail("a realloc without memory damaged its block");
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (i && !intact(blocks[i], bytes < 64 ? bytes : 64, i)) report.fail("a block was damaged when memory ran out");
    free(blocks[i]);
  }
  return true;
}

void run_out(Report& report, int resource, std::size_t more) {
  constexpr std::size_t kMost = 1u << 22;
  void** blocks = map_array<void*>(kMost);
  free(malloc(100));  // what the heap reserves at its first call is not what is limited here
  if (!allow(resource, more)) return report.fail("cannot set a limit");
  for (const std::size_t bytes : {64ul, 1000ul, 40'000ul, 3'000'000ul}) {
    if (!exhaust(report, bytes, blocks, kMost) || report.failed()) return;
    // Half of what there was must be there again, in blocks of the same size.
    std::size_t again = 0;
    const std::size_t wanted = more / 4 / bytes;
    for (; again < wanted && (blocks[again] = malloc(bytes)) != nullptr; ++again) {
    }
    for (std::size_t i = 0; i < again; ++i) free(blocks[i]);
    if (again < wanted)
      report.fail("after it ran out and all was freed, %zu of %zu blocks of %zu bytes were to be had", again, wanted,
                  bytes);
  }
}

void address_space(Report& report, Amount) { run_out(report, RLIMIT_AS, 192u << 20); }
void data_limit(Report& report, Amount) { run_out(report, RLIMIT_DATA, 192u << 20); }

void first_call_without_memory(Report& report, Amount) {
  // A process that starts with little address space must start, or say why; then null, not a crash.
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{std::size_t{512} << 20, std::size_t{512} << 20};
    setrlimit(RLIMIT_AS, &limit);
    char* words[] = {const_cast<char*>("true"), nullptr};
    execv("/bin/true", words);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    report.fail("a program with 512 MiB of address space dies of signal %d", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    report.fail("a program with 512 MiB of address space ends with exit code %d", WEXITSTATUS(status));
}

void threads_without_memory(Report& report, Amount amount) {
  free(malloc(100));
  if (!allow(RLIMIT_AS, 256u << 20)) return report.fail("cannot set a limit");
  std::atomic<int> damaged{0}, refused{0};
  on_threads(4, [&](std::size_t index) {
    constexpr std::size_t kSlots = 4000;
    void** slots = static_cast<void**>(calloc(kSlots, sizeof(void*)));
    if (!slots) return;
    Random random(1, index);
    for (std::size_t step = 0; step < amount.of(40'000, 4); ++step) {
      void*& slot = slots[random.below(kSlots)];
      if (slot && !intact(slot, 100, index)) ++damaged;
      free(slot);
      slot = malloc(100 + random.below(60'000));
      if (slot)
        fill(slot, 100, index);
      else
        ++refused;
    }
    for (std::size_t i = 0; i < kSlots; ++i) free(slots[i]);
    free(slots);
  });
  report.fact("refused", refused.load(), "times");
  if (damaged) report.fail("%d blocks were damaged while memory ran out", damaged.load());
}

void new_without_memory(Report& report, Amount) {
  free(malloc(100));
  if (!allow(RLIMIT_AS, 64u << 20)) return report.fail("cannot set a limit");
  bool thrown = false;
  void** blocks = map_array<void*>(100'000);
  std::size_t count = 0;
  try {
    for (; count < 100'000; ++count) blocks[count] = operator new(100'000);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  for (std::size_t i = 0; i < count; ++i) operator delete(blocks[i]);
  if (!thrown && count == 100'000)
    report.note("%zu blocks of 100000 bytes fitted below the limit", count);
  else if (!thrown)
    report.fail("new without memory did not throw bad_alloc");
}

constexpr Case kLimitCases[] = {
    {"limits", "address-space", "RLIMIT_AS: null and ENOMEM, then everything is to be had again", address_space},
    {"limits", "data", "RLIMIT_DATA: the same", data_limit},
    {"limits", "little-from-the-start", "a program starts with 512 MiB of address space", first_call_without_memory},
    {"limits", "threads", "four threads at the limit lose and damage nothing", threads_without_memory},
    {"limits", "new", "new without memory throws bad_alloc", new_without_memory},
};

}  // namespace

std::span<const Case> limit_cases() { return kLimitCases; }

}  // namespace heapyard::check
