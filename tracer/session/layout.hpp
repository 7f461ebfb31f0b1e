// SPDX-License-Identifier: Apache-2.0
// The memory that a traced program and the collector share: one header, a set of sampled blocks, and a ring per thread.
//
// Idea: the program creates it (memfd) and hands it to the collector through a socket, so that it outlives the program:
// what was written before a SIGKILL is read afterwards. Both sides are of one build; the version says so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared.hpp"
#include "tracer/session/activity.hpp"
#include "tracer/session/bell.hpp"
#include "tracer/session/owner.hpp"
#include "tracer/session/sample_filter.hpp"

namespace heapyard::tracer {

inline constexpr std::uint64_t kMagic = 0x64726179'70616548;  // "Heapyard"
inline constexpr std::uint32_t kVersion = 10;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::uint32_t kRings = 1024;                  // threads at once
inline constexpr std::uint32_t kFrames = shared::kMostFrames;  // of a chain at most

using Mode = shared::TracerMode;

// What a ring holds: records of 64-bit words. The first word has the kind in its top byte and an address or a number
// below.
enum class Kind : std::uint8_t {
  kPad,     // the rest of the ring is empty; go on at its beginning
  kAlloc,   // address | stamp | log2(interval) << 56, size | bytes that may be used beyond << 32 | number of its chain
  kFree,    // address | stamp
  kMove,    // address | stamp: a free because of a realloc that may yet fail
  kStay,    // address | stamp: that realloc failed, the block of the last kMove lives on
  kChain,   // frames here, 1 if longer than the limit, 2 if torn << 32 | its number, outermost frames that it has in
            // common with the chain that this ring told before << 32 | return addresses of the others, innermost first
  kModule,  // bytes of path | begin | end | load bias | build-id (20 bytes, its length in the next) | path, padded
  kMark,    // bytes of name | stamp | name, padded
  kSample,  // as kAlloc, of a size class | bytes of the class, which are what it was drawn by
  // What the program maps by itself, other than blocks.
  kMapped,  // address | stamp | bytes | number of its chain; 0: for an allocator of its own, which tells of its blocks
  kUnmapped,  // address | stamp | bytes
  kScript,    // bytes of text | number of a place << 32 | line | name of its function, 0, its file; padded
  // Where every event is recorded: stamp, counted from the session's | owner, size << Owner::kBits.
  kOwned,       // an allocation
  kGone,        // its free
  kGoneAtOnce,  // the same, by the very next call of its thread
  kGoneMove,    // because of a realloc that may yet fail
  kBack,        // which it did
  kMore,        // size >> Owner::kSizeBits of the next of these
  kSince,       // stamp of the brief events that follow: 1 << 63 | kind - kOwned << 61 | size << Owner::kBits | owner
  kThread,      // the thread whose records follow: number << 32 | kernel's id
};

// A word of a chain that is no return address: this, the number of a place of a script, and 1, as if a call ended
// there.
inline constexpr std::uint64_t kScript = std::uint64_t{shared::kScriptPlaces};

inline constexpr std::uint64_t kAddressBits = (std::uint64_t{1} << 56) - 1;

constexpr std::uint64_t first_word(Kind kind, std::uint64_t rest) {
  return static_cast<std::uint64_t>(kind) << 56 | (rest & kAddressBits);
}
constexpr Kind kind_of(std::uint64_t first) { return static_cast<Kind>(first >> 56); }

// Events of kOwned to kGoneMove in one word, by a thread that records alone: most of all.
inline constexpr unsigned kBriefSizeBits = Owner::kSizeBits - 3;
constexpr std::uint64_t brief(Kind kind, const Owned& owned) {
  return (std::uint64_t{4} | (static_cast<std::uint64_t>(kind) - static_cast<std::uint64_t>(Kind::kOwned))) << 61 |
         owned.size << Owner::kBits | owned.owner.word;
}
constexpr bool is_brief(std::uint64_t first) { return first >> 63 != 0; }
constexpr Kind kind_of_brief(std::uint64_t word) {
  return static_cast<Kind>(static_cast<std::uint64_t>(Kind::kOwned) + (word >> 61 & 3));
}
constexpr Owned owned_of_brief(std::uint64_t word) {
  return Owned::of(word & ((std::uint64_t{1} << (Owner::kBits + kBriefSizeBits)) - 1));
}

// Words of the record that begins with `first`; 0 if there is no such record.
constexpr std::uint64_t record_words(std::uint64_t first) {
  constexpr std::uint8_t kFixed[] = {0, 4, 2, 2, 2, 0, 0, 0, 5, 4,
                                     3, 0, 2, 2, 2, 2, 2, 1, 1, 1};  // by kind; 0: it says
  if (is_brief(first)) return 1;
  const std::uint64_t rest = first & kAddressBits;
  const Kind kind = kind_of(first);
  if (kind > Kind::kThread) return 0;
  if (const std::uint8_t words = kFixed[static_cast<std::size_t>(kind)]) [[likely]]
    return words;
  if (kind == Kind::kPad) return rest;
  if (kind == Kind::kChain) return 2 + (rest & 0xffffffff);
  return (kind == Kind::kModule ? 7 : 2) + (rest + 7) / 8;
}

// Allocations and frees that left no record, each for its reason. Never silently: the trace holds every count.
struct Lost {
  std::atomic<std::uint64_t> nested;       // made by a signal handler in the middle of a recording
  std::atomic<std::uint64_t> no_ring;      // more threads at once than rings
  std::atomic<std::uint64_t> ring_full;    // the collector did not keep up
  std::atomic<std::uint64_t> set_full;     // no room to remember a block
  std::atomic<std::uint64_t> frees;        // of blocks whose address came again: exact mode's
  std::atomic<std::uint64_t> unknown;      // frees of blocks that are not recorded, where every event is
  std::atomic<std::uint64_t> chains_torn;  // call chains that ended in code without unwind tables
};

inline constexpr unsigned kOwnRanges = 64;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid, parent;
  std::uint32_t rings;
  std::uint32_t ring_bytes;                 // a power of two
  std::uint32_t buckets;                    // of the set at most, a power of two
  std::atomic<std::uint32_t> buckets_used;  // as many as have been needed so far, a power of two
  std::uint32_t depth;                      // frames of a chain at most
  std::uint32_t with_python;                // 1: its small objects too; where every event is recorded, its functions
  std::uint32_t attached;                   // 1: the process ran before, with blocks that nobody recorded
  std::uint64_t start_stamp;
  std::uint64_t start_nanoseconds;           // CLOCK_MONOTONIC at start_stamp
  std::uint32_t collector;                   // its process, by the number that the program has for it
  std::atomic<Mode> mode;                    // whoever changes it, or the modules, lets the activity begin anew
  std::atomic<std::uint32_t> log2_interval;  // mean bytes between two samples
  std::atomic<std::uint32_t> highest_ring;   // rings ever used
  std::atomic<std::uint32_t> threads;        // that ever had a ring: the number of the next one
  std::atomic<std::uint64_t> own_bytes;      // of the program's memory that the tracer takes to know its blocks
  std::atomic<std::uint64_t> waits;          // times a thread waited for room in its ring
  std::atomic<std::uint64_t> naps;           // and how often it slept meanwhile, for 50 us by name
  Bell bell;
  Activity activity;
  std::atomic<std::uint32_t> modules_sent;  // records of modules in all rings, counted after they were published
  Lost lost;
  std::atomic<std::uint64_t> own_begins[kOwnRanges], own_ends[kOwnRanges];  // ranges that the tracer has mapped itself
  char allocator[256];                                                      // the library whose malloc serves
  char program[256];                                                        // /proc/self/exe
  char command[2048];                                                       // /proc/self/cmdline, as far as it fits
  std::uint32_t command_bytes;
};

inline constexpr std::uint32_t kFirstBuckets = 1u << 8;  // 16 KiB
struct alignas(64) Bucket {
  std::atomic<std::uint64_t> address[8];
};

// A thread that ends leaves its ring to the next one, read or not: its records say from where on they are another's.
struct alignas(64) Ring {
  std::atomic<std::uint64_t> owner;             // its number << 32 | kernel's id; 0: the ring is free
  std::atomic<std::uint64_t> head;              // words ever written, by the owner
  alignas(64) std::atomic<std::uint64_t> tail;  // words ever read, by the collector
};

inline constexpr std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

// Where the parts lie, by what the header said at first. All offsets in bytes from the header.
struct Layout {
  std::size_t ring_bytes, filter, set, ring_heads, ring_words, end;

  constexpr Layout(std::size_t rings, std::size_t bytes_of_ring, std::size_t buckets)
      : ring_bytes(bytes_of_ring),
        filter(in_pages(sizeof(Header))),
        set(filter + kSampleCounts),
        ring_heads(set + buckets * sizeof(Bucket)),
        ring_words(in_pages(ring_heads + rings * sizeof(Ring))),
        end(ring_words + rings * ring_bytes) {}
  explicit Layout(const Header& header) : Layout(header.rings, header.ring_bytes, header.buckets) {}
};

// One process's shared memory, seen by either side. O(1) each.
class Session {
 public:
  Session() = default;
  Session(void* base, const Layout& layout) : base_(static_cast<char*>(base)), layout_(layout) {}

  explicit operator bool() const { return base_ != nullptr; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  SampleCount* filter() const { return reinterpret_cast<SampleCount*>(base_ + layout_.filter); }
  Bucket* set() const { return reinterpret_cast<Bucket*>(base_ + layout_.set); }
  Ring& ring(std::size_t index) const { return reinterpret_cast<Ring*>(base_ + layout_.ring_heads)[index]; }
  std::uint64_t* words(std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(base_ + layout_.ring_words + index * layout_.ring_bytes);
  }
  std::size_t ring_bytes() const { return layout_.ring_bytes; }
  void* base() const { return base_; }
  std::size_t bytes() const { return layout_.end; }

 private:
  char* base_ = nullptr;
  Layout layout_{0, 0, 0};
};

inline std::uint64_t stamp() { return __builtin_ia32_rdtsc(); }

}  // namespace heapyard::tracer
