// SPDX-License-Identifier: Apache-2.0
// How many pages are in use, and how many may be free and dirty beside them.
//
// Idea: what a program had in use a moment ago it may use again, and its peak does not grow by that. So pages in use
// and dirty ones together may be a share above the last peak. A peak counts for two epochs. New pages come in place of
// dirty ones elsewhere where these are too many; when a peak is forgotten, all that is too much is owed. A limit on
// memory leaves less for dirty pages, and may refuse more in use. Cost: O(1), and a look at the clock where much is
// free. Threads: the owner's lock; what is in use, free or owed, and the limit, any may read.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "heap/layers/backend/memory_limit.hpp"
#include "heap/policy/page_classes.hpp"

namespace heapyard {

class PageBudget {
 public:
  static constexpr std::uint32_t kShare = 32;  // of 1024 parts of what was in use: so many may be there more,
  static constexpr std::uint32_t kSlack = 32;  // and so many pages
  static constexpr long kEpoch = 400;          // milliseconds

  constexpr PageBudget() = default;

  std::uint32_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint32_t large() const { return large_.load(std::memory_order_relaxed); }
  std::uint32_t owed() const {
    const std::uint32_t owed = owed_.load(std::memory_order_relaxed);
    return limit_.set() ? std::max(owed, excess()) : owed;
  }
  std::uint32_t dirty() const { return dirty_.load(std::memory_order_relaxed); }

  MemoryLimit& limit() { return limit_; }
  // Of 1024 parts of what was in use: how many may be there more.
  void keep(std::uint32_t share) { share_.store(share, std::memory_order_relaxed); }

  // Whether so many more pages may come into use.
  bool may_use(std::uint32_t pages) const { return bytes_of(pages) <= limit_.room(bytes_of(used())); }

  // Pages in use became more; or less, by differences below zero, modulo 2^32.
  void use(std::uint32_t more, bool of_large) {
    used_.store(used() + more, std::memory_order_relaxed);
    if (used() > peak_) peak_ = used();
    if (of_large) large_.store(large() + more, std::memory_order_relaxed);
  }

  // So many dirty pages are free now, or are no longer.
  void add_dirty(std::uint32_t pages) { dirty_.store(dirty() + pages, std::memory_order_relaxed); }
  void take_dirty(std::uint32_t pages) { dirty_.store(dirty() - pages, std::memory_order_relaxed); }

  // After so many new pages came into use.
  void weigh(std::uint32_t fresh) {
    const std::uint32_t most = allowed();
    if (fresh != 0 && dirty() > most) owe(fresh < dirty() - most ? fresh : dirty() - most);
  }

  // Now and then.
  void look() {
    if (dirty() <= share_of(used()) + kSlack) return;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const long milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    if (milliseconds - epoch_ < kEpoch) return;
    epoch_ = milliseconds;
    peak_before_ = peak_;
    peak_ = used();
    if (const std::uint32_t most = allowed(); dirty() > most) owe(dirty() - most);
  }

  void owe_all() { owed_.store(dirty(), std::memory_order_relaxed); }
  void paid(std::uint32_t pages) {
    const std::uint32_t owed = owed_.load(std::memory_order_relaxed);
    owed_.store(pages >= owed ? 0 : owed - pages, std::memory_order_relaxed);
  }
  void forgive() { owed_.store(0, std::memory_order_relaxed); }

 private:
  std::uint32_t allowed() const {
    const std::uint32_t peak = peak_ > peak_before_ ? peak_ : peak_before_;
    return peak + share_of(peak) + kSlack - used();
  }
  // Dirty pages for which a limit leaves no room.
  std::uint32_t excess() const {
    const std::size_t room = limit_.room(bytes_of(used())) / policy::kSmallPage;
    return dirty() > room ? dirty() - static_cast<std::uint32_t>(room) : 0;
  }
  static std::size_t bytes_of(std::uint32_t pages) { return std::size_t{pages} * policy::kSmallPage; }
  std::uint32_t share_of(std::uint32_t pages) const {
    return static_cast<std::uint32_t>(std::uint64_t{pages} * share_.load(std::memory_order_relaxed) / 1024);
  }
  void owe(std::uint32_t pages) {
    const std::uint32_t sum = owed_.load(std::memory_order_relaxed) + pages;
    owed_.store(sum < dirty() ? sum : dirty(), std::memory_order_relaxed);
  }

  MemoryLimit limit_;
  std::atomic<std::uint32_t> share_{kShare};
  std::uint32_t peak_ = 0;         // of the pages in use in this epoch,
  std::uint32_t peak_before_ = 0;  // and in the one before
  long epoch_ = 0;
  std::atomic<std::uint32_t> used_{0}, large_{0}, owed_{0};  // pages
  std::atomic<std::uint32_t> dirty_{0};                      // pages that are free, and not zeros
};

}  // namespace heapyard
