// SPDX-License-Identifier: Apache-2.0
// How many pages are in use, and how many may be free and dirty beside them.
//
// Idea: what a program had in use a moment ago it may use again, and its peak does not grow by that. So pages in use
// and dirty ones together may be a share above the last peak. A peak counts for two epochs. New pages come in place of
// dirty ones elsewhere where these are too many; when a peak is forgotten, all that is too much is owed. Cost: O(1),
// and a look at the clock where much is free. Threads: the owner's lock; used, large and owed may be read by any.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace heapyard {

class PageBudget {
 public:
  static constexpr std::uint32_t kShare = 32;  // of what was in use: one part more may be there,
  static constexpr std::uint32_t kSlack = 32;  // and so many pages
  static constexpr long kEpoch = 400;          // milliseconds

  constexpr PageBudget() = default;

  std::uint32_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint32_t large() const { return large_.load(std::memory_order_relaxed); }
  std::uint32_t owed() const { return owed_.load(std::memory_order_relaxed); }
  std::uint32_t dirty() const { return dirty_; }

  // Pages in use became more; or less, by differences below zero, modulo 2^32.
  void use(std::uint32_t more, bool of_large) {
    used_.store(used() + more, std::memory_order_relaxed);
    if (used() > peak_) peak_ = used();
    if (of_large) large_.store(large() + more, std::memory_order_relaxed);
  }

  // So many dirty pages are free now, or are no longer.
  void add_dirty(std::uint32_t pages) { dirty_ += pages; }
  void take_dirty(std::uint32_t pages) { dirty_ -= pages; }

  // After so many new pages came into use.
  void weigh(std::uint32_t fresh) {
    const std::uint32_t most = allowed();
    if (fresh != 0 && dirty_ > most) owe(fresh < dirty_ - most ? fresh : dirty_ - most);
  }

  // Now and then.
  void look() {
    if (dirty_ <= used() / kShare + kSlack) return;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const long milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    if (milliseconds - epoch_ < kEpoch) return;
    epoch_ = milliseconds;
    peak_before_ = peak_;
    peak_ = used();
    if (const std::uint32_t most = allowed(); dirty_ > most) owe(dirty_ - most);
  }

  void owe_all() { owed_.store(dirty_, std::memory_order_relaxed); }
  void paid(std::uint32_t pages) { owed_.store(pages >= owed() ? 0 : owed() - pages, std::memory_order_relaxed); }
  void forgive() { owed_.store(0, std::memory_order_relaxed); }

 private:
  std::uint32_t allowed() const {
    const std::uint32_t peak = peak_ > peak_before_ ? peak_ : peak_before_;
    return peak + peak / kShare + kSlack - used();
  }
  void owe(std::uint32_t pages) {
    const std::uint32_t sum = owed() + pages;
    owed_.store(sum < dirty_ ? sum : dirty_, std::memory_order_relaxed);
  }

  std::uint32_t dirty_ = 0;        // pages that are free, and not zeros
  std::uint32_t peak_ = 0;         // of the pages in use in this epoch,
  std::uint32_t peak_before_ = 0;  // and in the one before
  long epoch_ = 0;
  std::atomic<std::uint32_t> used_{0}, large_{0}, owed_{0};  // pages
};

}  // namespace heapyard
