// SPDX-License-Identifier: Apache-2.0
// Which fault is planted into a heap: the name in HEAPYARD_PLANTED when the library is loaded; none without.
//
// Each is of a kind that allocators had. `heapyard fuzz` must find all of them (tests/e2e/test_fuzz_planted.py).
#pragma once

#include <cstdlib>
#include <iterator>
#include <string_view>

namespace heapyard::test {

enum class Fault {
  kNone,
  kCrooked,        // now and then an alignment is forgotten
  kStale,          // calloc of a small block takes what was freed for new
  kStaleLarge,     // the same of a large one
  kWraps,          // a size near the top is rounded up to a small one
  kRounding,       // a size just above a class gets the class below
  kUsable,         // malloc_usable_size says more than there is
  kGrows,          // realloc finds room behind a small block that is another's
  kGrowsLarge,     // the same of a large one
  kHalfMoved,      // a large block that moves loses its end
  kTwice,          // a block is freed twice now and then
  kNoErrno,        // a refusal leaves errno alone
  kFreeErrno,      // free changes errno now and then
  kForkLock,       // a lock that a forked child finds taken
  kForkRewinds,    // a forked child hands out again what the parent had last
  kThreadEnd,      // what a thread kept is freed twice when it ends
  kRacyCache,      // a cache that threads share without a lock
  kUntaggedStack,  // a lock-free stack without tags: ABA
  kLostRemote,     // a block that another thread frees is lost
  kMissedFailure,  // memory is out, and an address is given all the same
  kSticky,         // after a refusal, all is refused
  kInterrupted,    // a system call that a signal interrupts is taken for a failure
  kTrimsLive,      // malloc_trim gives the memory of a live block back
  // In the atomics and locks of scalloc's layers.
  kSplitUpdates,   // a read-modify-write is a read, and later a write
  kForgetsTags,    // no tag beside a stack's pointer
  kForgetsEpochs,  // a span's state has no epoch
  kNoLocks,        // locks do not lock
  kEnd
};

inline constexpr std::string_view kFaults[] = {
    "none",         "crooked",     "stale",         "stale-large",    "wraps",          "rounding",       "usable",
    "grows",        "grows-large", "half-moved",    "twice",          "no-errno",       "free-errno",     "fork-lock",
    "fork-rewinds", "thread-end",  "racy-cache",    "untagged-stack", "lost-remote",    "missed-failure", "sticky",
    "interrupted",  "trims-live",  "split-updates", "forgets-tags",   "forgets-epochs", "no-locks"};
static_assert(std::size(kFaults) == static_cast<std::size_t>(Fault::kEnd));

inline constinit Fault planted = Fault::kNone;

// A name that is none ends the process: a test would prove nothing.
inline void plant() {
  const char* const name = std::getenv("HEAPYARD_PLANTED");
  if (name == nullptr) return;
  for (std::size_t fault = 0; fault < std::size(kFaults); ++fault) {
    if (kFaults[fault] == name) {
      planted = static_cast<Fault>(fault);
      return;
    }
  }
  std::abort();
}

}  // namespace heapyard::test
