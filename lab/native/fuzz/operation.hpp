// SPDX-License-Identifier: Apache-2.0
// One call of the malloc interface, on a slot of one thread; and sequences of them as text, one to a line.
//
// Idea: nothing in an operation depends on an address or on a clock, so a sequence that found something can be
// shortened, played again, and written as C. A slot holds a block or nothing. A call that makes a block first releases
// what its slot holds. A line is "thread call slot size other"; what a call does not use is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/text.hpp"

namespace heapyard::fuzz {

enum class Call : std::uint8_t {
  kMalloc,
  kCalloc,        // other: how many of `size`
  kRealloc,       // of the slot's block
  kReallocarray,  // other: how many of `size`
  kAlignedAlloc,  // other: the alignment, here and below
  kPosixMemalign,
  kMemalign,
  kValloc,
  kPvalloc,
  kNew,
  kNewArray,
  kNewNothrow,
  kNewAligned,
  kNewArrayAligned,
  kRelease,      // other: 1 if the call for a known size is to be used
  kLook,         // at the slot's contents
  kUseAll,       // of what malloc_usable_size says
  kGive,         // other: the mailbox, whose block comes into the slot
  kAsk,          // mallinfo2
  kTrim,         // malloc_trim
  kEndThread,    // another thread goes on with its slots
  kFork,         // the child looks, makes `size` calls by the seed `other`, and ends
  kForkLimited,  // the same, with `size` MiB of address space more than it has
  kEnd           // of the enumeration
};

inline constexpr std::string_view kCalls[] = {
    "malloc",  "calloc", "realloc",   "reallocarray", "aligned_alloc", "posix_memalign", "memalign",    "valloc",
    "pvalloc", "new",    "new[]",     "new_nothrow",  "new_aligned",   "new[]_aligned",  "release",     "look",
    "use_all", "give",   "mallinfo2", "malloc_trim",  "end_thread",    "fork",           "fork_limited"};
static_assert(std::size(kCalls) == static_cast<std::size_t>(Call::kEnd));

struct Operation {
  std::uint64_t size, other;
  std::uint16_t slot;
  std::uint8_t thread;
  Call call;
};

inline constexpr unsigned kMostThreads = 16, kSlots = 512, kMailboxes = 32;
inline constexpr std::uint64_t kMostInChild = 100'000;  // calls of a fork's child
inline constexpr std::uint64_t kMostMebibytes = 1 << 20;

void write_operation(Text& text, const Operation& operation);

// At most so many operations are in a text. O(bytes).
std::size_t most_operations(std::string_view text);

// The operations of a text into `operations`, which has room for most_operations(). A line that is none, or no legal
// call, ends it: `wrong_line` is its number, from 1 on, else 0. O(bytes).
struct Parsed {
  std::size_t count, wrong_line;
};
Parsed parse_operations(std::string_view text, Operation* operations);

// The lines of a file. Exits with a sentence that names file and line. O(bytes).
std::span<const Operation> read_operations(const char* path);

}  // namespace heapyard::fuzz
