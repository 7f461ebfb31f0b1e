// SPDX-License-Identifier: Apache-2.0
// What native parts and the lab agree on. Made by base/write_shared.py from base/shared.toml.
#pragma once

#include <cstdint>

namespace heapyard::shared {

// A trace begins with it (docs/trace-format.md).
inline constexpr char kTraceMagic[] = "heapyard-trace 1\n";
// A chunk begins with it.
inline constexpr char kChunkMagic[] = "HYCK";
// A finished trace ends with it.
inline constexpr char kIndexMagic[] = "HYINDEX1";
// Of a trace's file name.
inline constexpr char kTraceSuffix[] = ".hytrace";
// The smallest limit of a trace's size.
inline constexpr std::uint64_t kLeastTraceBytes = 65536;
// The longest call chain that is kept.
inline constexpr std::uint64_t kMostFrames = 256;
// 2^56: an offset in no module from here on is a place of a script, by its number.
inline constexpr std::uint64_t kScriptPlaces = 72057594037927936;
// The largest mean distance between two samples, as a power of two.
inline constexpr std::uint64_t kMostLog2Interval = 40;
// Environment: how a program is to be traced, and by which collector.
inline constexpr char kWishVariable[] = "HEAPYARD_TRACE";
// Environment: who may hand memory to the collector.
inline constexpr char kTokenVariable[] = "HEAPYARD_TOKEN";

// What a traced program records.
enum class TracerMode : std::uint32_t {
  kOff = 0,      // nothing any more: the collector has gone
  kSampled = 1,  // allocations by Poisson's process over bytes; frees of sampled blocks
  kExact = 2,    // every allocation and every free
  kPages = 3,    // page records and spans that a heap takes and gives back
};

// What resident memory is that no mapping of the program's own explains; in the order of an account's numbers.
enum class Resident : std::uint32_t {
  kAllocator = 0,   // what malloc has from the system
  kStacks = 1,      // of threads
  kChanged = 2,     // the program's and its libraries' own data, as far as it was written
  kAsInFiles = 3,   // the program and its libraries as their files are
  kOtherFiles = 4,  // mapped by nobody who was seen: shared memory, locales
  kTracer = 5,      // the tracer's own
  kUnknown = 6,     // anonymous, and of no other kind
  kRounding = 7,    // bytes of malloc's blocks beyond those asked for
  kHuge = 8,        // of malloc's memory what lies in huge pages; counted already
  kLazy = 9,        // given back by MADV_FREE, and still there; counted already
};

// What a chunk of a trace holds; a letter in the file.
enum class ChunkKind : char {
  kMeta = 'M',      // JSON: what was traced, how
  kModules = 'O',   // files mapped into the program
  kScripts = 'P',   // places of scripts: number, line, function, file
  kNodes = 'N',     // call tree: parent, module, offset
  kChanges = 'C',   // memory of nodes over time
  kTotals = 'T',    // of the whole process over time
  kSnapshot = 'S',  // exact composition of an instant
  kAccount = 'A',   // what the resident memory of an instant is
  kChains = 'H',    // per chain: allocations over the whole run
  kThreads = 'R',   // what each thread allocated
  kSizes = 'Z',     // histogram of sizes
  kEnd = 'E',       // JSON: how it ended, what was lost
  kSymbols = 'Y',   // JSON: what addresses mean; added by the lab
  kIndex = 'I',     // where the other chunks lie
};

// What stands before a chunk's bytes. raw, stored: bytes before and after compression; crc: CRC-32 of what is stored;
// begin, end: the microseconds that the chunk is about.
struct ChunkHead {
  char magic[4];
  char kind;
  char reserved[3];
  std::uint32_t raw;
  std::uint32_t stored;
  std::uint32_t crc;
  std::uint32_t reserved_too;
  std::uint64_t begin;
  std::uint64_t end;
};
static_assert(sizeof(ChunkHead) == 40);

}  // namespace heapyard::shared
