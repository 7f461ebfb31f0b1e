// SPDX-License-Identifier: Apache-2.0
// Shadow memory: a word for every so many bytes of the program's memory, found by arithmetic.
//
// Idea: as the debugging allocators have it (Nethercote and Seward, "How to shadow every byte of memory", VEE 2007): a
// table of regions, each with its words, mapped when the first of them is needed. Words get memory in pieces, for a
// fault per page would cost several times as much. Cost: O(1), two loads; 8 bytes per step where words are in use.
// Threads: a word is touched by whoever owns what it is for; regions are put in by compare-and-swap. Fork: a child
// finds all empty. Errors: no address space: no word.
#pragma once

#include <linux/mman.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/mapping.hpp"
#include "tracer/session/layout.hpp"

namespace heapyard::tracer {

// A word for every step, of as many bytes as prepare() is told.
class Shadow {
 public:
  static constexpr unsigned kLeastLog2 = 4;

  // The first time says of how many bytes a step is: 1 << log2_step, at least 1 << kLeastLog2. False: there is no
  // address space.
  bool prepare(unsigned log2_step) {
    if (regions_ != nullptr) return true;
    log2_step_ = log2_step;
    void* memory = map_sparse(kRegions * sizeof *regions_);
    regions_ = static_cast<std::atomic<Region*>*>(memory);
    spare_ = static_cast<Region*>(map_sparse(region_bytes()));
    return memory != nullptr;
  }

  // The word of the step at `address` or after it, by `kUp` steps at most, if there is memory for it; else null.
  [[gnu::always_inline]] std::uint64_t* at(std::uintptr_t address, std::uintptr_t up = 0) const {
    Region* region = entry_of(address).load(std::memory_order_acquire);
    const std::size_t place = place_of(address, up);
    return region != nullptr && region->has[place / kPiece] ? region->words() + place : nullptr;
  }
  // The same, but makes memory. `in_use` grows by its bytes. Null: there is none.
  [[gnu::noinline, gnu::cold]] std::uint64_t* make(std::uintptr_t address, std::uintptr_t up,
                                                   std::atomic<std::uint64_t>& in_use) {
    Region* region = entry_of(address).load(std::memory_order_acquire);
    if (region == nullptr && (region = put_region(entry_of(address))) == nullptr) return nullptr;
    const std::size_t place = place_of(address, up), piece = place / kPiece;
    if (!region->has[piece]) {
      constexpr std::size_t kBytes = kPiece * sizeof(std::uint64_t);
      madvise(region->words() + piece * kPiece, kBytes, MADV_POPULATE_WRITE);  // Linux 5.14; before it, page by page
      in_use.fetch_add(kBytes, std::memory_order_relaxed);
      region->has[piece] = true;
    }
    return region->words() + place;
  }

  // All words are 0 again. O(regions there are). While nobody uses them.
  void clear() {
    for (Region* region = newest_.load(std::memory_order_acquire); region != nullptr; region = region->older)
      madvise(region->has, forgettable_bytes(), MADV_DONTNEED);
  }

 private:
  static constexpr unsigned kRegionShift = 24;
  static constexpr std::uintptr_t kRegion = std::uintptr_t{1} << kRegionShift;
  static constexpr std::size_t kRegions = std::size_t{1} << (47 - kRegionShift);
  static constexpr std::size_t kPiece = 8 * kPage / sizeof(std::uint64_t);

  // Its words lie behind it. What links the regions is on a page of its own, which neither clear() nor a fork wipes.
  struct alignas(kPage) Region {
    Region* older;
    alignas(kPage) bool has[kPage];
    std::uint64_t* words() { return reinterpret_cast<std::uint64_t*>(this + 1); }
  };
  static_assert((kRegion >> kLeastLog2) / kPiece + 1 <= kPage);

  std::size_t region_bytes() const {
    return sizeof(Region) + ((kRegion >> log2_step_) + kPiece) * 8;  // with steps that begin behind the region
  }
  std::size_t forgettable_bytes() const { return region_bytes() - offsetof(Region, has); }
  [[gnu::always_inline]] std::size_t place_of(std::uintptr_t address, std::uintptr_t up) const {
    return ((address & (kRegion - 1)) + up) >> log2_step_;
  }

  std::atomic<Region*>& entry_of(std::uintptr_t address) const {
    return regions_[address >> kRegionShift & (kRegions - 1)];
  }
  Region* put_region(std::atomic<Region*>& entry) {
    void* memory = map_sparse(region_bytes());
    if (memory == nullptr) memory = std::exchange(spare_, nullptr);  // what the program got last is worth it
    auto* region = static_cast<Region*>(memory);
    if (region == nullptr || madvise(region->has, forgettable_bytes(), MADV_WIPEONFORK) != 0) return nullptr;
    Region* other = nullptr;
    if (!entry.compare_exchange_strong(other, region)) {
      munmap(region, region_bytes());
      return other;
    }
    region->older = newest_.load(std::memory_order_relaxed);
    while (!newest_.compare_exchange_weak(region->older, region, std::memory_order_release)) {
    }
    return region;
  }

  std::atomic<Region*>* regions_ = nullptr;
  std::atomic<Region*> newest_{nullptr};
  unsigned log2_step_ = 0;
  Region* spare_ = nullptr;  // for when there is no address space left
};

}  // namespace heapyard::tracer
