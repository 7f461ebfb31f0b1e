// SPDX-License-Identifier: Apache-2.0
// How much all blocks together took at most, and whether the process takes far more.
//
// Idea: a block that is lost when another thread frees it shows in nothing but memory. Each thread counts for itself,
// and adds what it has now and then: so the peak is right within kOwn a thread. Cost: O(1); a look at the memory reads
// one file. Threads: any.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace heapyard::fuzz {

class LiveBytes {
 public:
  // Of one thread.
  class Share {
   public:
    void add(LiveBytes& all, std::int64_t bytes) {
      mine_ += bytes;
      if (mine_ < kOwn && mine_ > -kOwn) return;
      all.take(mine_);
      mine_ = 0;
    }

   private:
    std::int64_t mine_ = 0;
  };

  void begin() { at_first_ = resident(); }

  // Bytes of memory beyond what heaps may take for such a peak; 0 if it takes no more.
  std::int64_t too_much() const {
    constexpr std::int64_t kTimes = 4, kBesides = std::int64_t{128} << 20;
    const std::int64_t most = at_first_ + kTimes * peak_.load(std::memory_order_relaxed) + kBesides;
    const std::int64_t now = resident();
    return now > most ? now - most : 0;
  }
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

  // Bytes that are resident in this process.
  static std::int64_t resident() {
    char text[128] = {};
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    char* rest = text;
    std::strtoull(text, &rest, 10);  // of addresses
    return length <= 0 ? 0 : static_cast<std::int64_t>(std::strtoull(rest, nullptr, 10)) * 4096;
  }

 private:
  static constexpr std::int64_t kOwn = 64 << 10;

  void take(std::int64_t bytes) {
    const std::int64_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::int64_t> live_{0}, peak_{0};
  std::int64_t at_first_ = 0;
};

}  // namespace heapyard::fuzz
