// SPDX-License-Identifier: Apache-2.0
// Who still shares a lifetime-size-class: one bit per thread, and the last to leave learns it (paper, section 2.3).
//
// Up to 64 threads in one word, up to 128 in a 16-byte compare-and-swap, beyond that in an array of words with a count
// of the words that are not zero yet. leave() is lock-free, O(1), and returns true to exactly one caller: the one that
// cleared the last bit; everything the others did before leaving happens before its return.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace heapyard::acdc {

class Sharers {
 public:
  // Bytes of the bitmap for this many threads, a multiple of 16; it must lie on a 16-byte boundary.
  static constexpr std::size_t bytes(std::size_t threads) {
    return threads <= 128 ? 16 : 16 + (threads + 127) / 128 * 16;
  }

  explicit Sharers(void* memory, std::size_t threads)
      : words_(static_cast<std::uint64_t*>(memory)), threads_(threads) {}

  // Before publication, by the allocating thread alone.
  void clear() {
    for (std::size_t i = 0; i < bytes(threads_) / 8; ++i) words_[i] = 0;
  }
  void add(std::size_t thread) {
    std::uint64_t& word = words_[first_word() + thread / 64];
    if (threads_ > 128 && word == 0) ++words_[0];
    word |= std::uint64_t{1} << (thread % 64);
  }

  bool leave(std::size_t thread) {
    const std::uint64_t bit = std::uint64_t{1} << (thread % 64);
    if (threads_ <= 64) {
      return std::atomic_ref(words_[0]).fetch_and(~bit, std::memory_order_acq_rel) == bit;
    }
    if (threads_ <= 128) return leave_pair(thread);
    std::uint64_t& word = words_[1 + 1 + thread / 64];
    if (std::atomic_ref(word).fetch_and(~bit, std::memory_order_acq_rel) != bit) return false;
    return std::atomic_ref(words_[0]).fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  // Beyond 128 threads word 0 counts the non-zero words of the bitmap, which starts on the next 16 bytes.
  std::size_t first_word() const { return threads_ > 128 ? 2 : 0; }

  bool leave_pair(std::size_t thread) {
#if defined(__x86_64__) || defined(__aarch64__)
    using Pair = unsigned __int128;
    auto* pair = reinterpret_cast<Pair*>(words_);
    const Pair mask = ~(Pair{1} << thread);
    Pair seen = 0;
    for (;;) {  // bound: each retry means that another thread left; at most `threads_` of them
      const Pair wanted = seen & mask;
      const Pair before = __sync_val_compare_and_swap(pair, seen, wanted);
      if (before == seen) return wanted == 0;
      seen = before;
    }
#else
#error "more than 64 threads need a 16-byte compare-and-swap here"
#endif
  }

  std::uint64_t* words_;
  std::size_t threads_;
};

}  // namespace heapyard::acdc
