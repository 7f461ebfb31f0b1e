// SPDX-License-Identifier: Apache-2.0
// Blocks that are ranges of their own: what a heap does with requests that no size class serves.
//
// Idea: a thread that may enter the heap gets a range of the source below. A thread that is inside already gets a
// mapping of its own; the word before the block tells the two apart (layers/backend/lone_mapping.hpp). In a sampled
// heap this layer also reports all these blocks to the listener, and samples of a size class come here. Cost: that of
// the source. Errors: null with errno ENOMEM, or false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/layers/backend/lone_mapping.hpp"
#include "heap/layers/concepts.hpp"
#include "heap/layers/sampled_blocks.hpp"
#include "heap/os/no_memory.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// Process: the heap's (layers/process.hpp). Ranges: the words before its blocks are {size, 0}. Samples:
// SampledBlocks or NoSampledBlocks.
template <Doors Process, LargeSource Ranges, MovingPageSource Pages, SampleStore Samples>
class RangeBlocks {
  using Visit = typename Process::Visit;

 public:
  using Lone = LoneMapping<Pages>;
  static constexpr std::size_t kMost = PTRDIFF_MAX / 2;  // room for prefixes and alignment in sums

  // `alignment`: a power of two, or 0 for what every range has. work_off() is called when the thread may enter.
  template <class WorkOff>
  static void* allocate(Ranges& ranges, std::size_t bytes, std::size_t alignment, WorkOff work_off) {
    if (bytes > kMost || alignment > kMost) return os::or_no_memory(nullptr);
    const Visit visit = Process::enter();
    if (visit.again) return allocate_lone(bytes, alignment);
    work_off();
    void* block = alignment == 0 ? ranges.allocate(bytes) : ranges.allocate_aligned(bytes, alignment);
    Process::leave(visit);
    tell_allocated(block, bytes);
    return os::or_no_memory(block);
  }

  // For a thread that may not enter.
  static void* allocate_lone(std::size_t bytes, std::size_t alignment) {
    Process::pace();
    return os::or_no_memory(Lone::allocate(bytes, alignment));
  }

  static void free(Ranges& ranges, void* block) {
    tell_returned(block);
    if (Lone::owns(block)) return Lone::free(block);
    const Visit visit = Process::enter();
    if (visit.again) return Process::put_aside(block);
    free_inside(ranges, block);
    Process::leave(visit);
  }

  // The same for a block that was put aside: whoever frees it is inside.
  static void free_inside(Ranges& ranges, void* block) {
    if constexpr (Samples::kSampled) {
      if (Samples::owns(block)) return Samples::free(block);
    }
    ranges.free(block);
  }

  // Whether the block now serves `bytes` where it is. `classes_to`: bytes up to which a size class serves.
  static bool resize(Ranges& ranges, void* block, std::size_t bytes, std::size_t classes_to) {
    if constexpr (Samples::kSampled) {
      if (Samples::owns(block)) return Samples::resize(block, bytes);
    }
    if (!resize_range(ranges, block, bytes, classes_to)) return false;
    tell_returned(block);
    tell_allocated(block, bytes);
    return true;
  }

  // Grows a large block by moving its pages; null if that cannot be done, and then nothing has changed. The listener of
  // a sampled heap is told of copies only.
  static void* move(Ranges& ranges, void* block, std::size_t bytes) {
    if (bytes < kMovable || bytes > kMost) return nullptr;
    if constexpr (Samples::kSampled) {
      if (Samples::owns(block) || tracing::sample_listener() != nullptr) return nullptr;
    }
    const std::size_t now = usable(ranges, block);
    if (now < kMovable || now >= bytes) return nullptr;
    if (Lone::owns(block)) return Lone::move(block, bytes);
    const Visit visit = Process::enter();
    if (visit.again) return nullptr;
    void* moved = ranges.move(block, bytes);
    Process::leave(visit);
    return moved;
  }

  static std::size_t usable(const Ranges& ranges, const void* block) {
    if constexpr (Samples::kSampled) {
      if (Samples::owns(block)) return Samples::usable(block);
    }
    return Lone::owns(block) ? Lone::usable(block) : ranges.usable(block);
  }

  // Clears a block. A large one goes back to the system and comes again when it is touched: a table that stays sparse
  // never becomes resident.
  static void* zero(void* block, std::size_t bytes) {
    if (bytes < kZeroedBySystem || !Pages::decommit(block, bytes)) return std::memset(block, 0, bytes);
    const std::size_t page = os::page_bytes();
    const auto start = reinterpret_cast<std::uintptr_t>(block), end = start + bytes;
    const std::uintptr_t first = os::round_up(start, page), last = end & ~(page - 1);
    std::memset(block, 0, first - start);
    std::memset(reinterpret_cast<void*>(last), 0, end - last);
    return block;
  }

 private:
  static bool resize_range(Ranges& ranges, void* block, std::size_t bytes, std::size_t classes_to) {
    const std::size_t now = usable(ranges, block);
    if (Lone::owns(block)) return bytes <= now && bytes >= now / 2;
    if (bytes > kMost || (bytes <= classes_to && now > 2 * classes_to)) return false;
    const Visit visit = Process::enter();
    if (visit.again) return bytes <= now;
    const bool resized = ranges.resize(block, bytes);
    Process::leave(visit);
    return resized;
  }

  static void tell_allocated(void* block, std::size_t bytes) {
    if constexpr (Samples::kSampled) {
      const tracing::SampleEvents* events = tracing::sample_listener();
      if (events != nullptr && block != nullptr) events->allocated(block, bytes);
    }
  }
  static void tell_returned(void* block) {
    if constexpr (Samples::kSampled) {
      if (const tracing::SampleEvents* events = tracing::sample_listener()) events->returned(block);
    }
  }

  // From here on moving pages costs less than copying them.
  static constexpr std::size_t kMovable = std::size_t{128} << 10;
  // From here on untouched zero pages cost less than clearing.
  static constexpr std::size_t kZeroedBySystem = std::size_t{1} << 20;
};

}  // namespace heapyard
