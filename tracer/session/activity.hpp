// SPDX-License-Identifier: Apache-2.0
// Whether all is as a thread found it last, and whether it was the only one to record since.
//
// Idea: a word with the number of the session, of the collector's last look, and who has recorded since: nobody, one
// thread, or many. Whatever changes for all threads makes it another, so a thread that finds the word as it left it
// need ask nothing else; and if it is the only one, its events need no stamps of their own to be put in order, which
// cost a quarter of a pair of malloc and free each, or more. Whoever comes second says so before its first event, so
// what that leads to in the first thread is stamped afresh. Cost: a load and a comparison per event, a compare-and-swap
// per thread and look.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace heapyard::tracer {

class Activity {
 public:
  // Of the process's session of this number: its words are no other session's, which a thread may have left one in.
  // Before any thread takes it.
  void be_of_session(std::uint32_t number) { word_.fetch_add(std::uint64_t{number} << kSessionShift); }

  // By the collector at each look, and by whoever changes something, afterwards.
  void begin_anew() {
    std::uint64_t word = word_.load();
    while (!word_.compare_exchange_weak(word, (word | kWho) + 1)) {
    }
  }

  std::uint64_t word() const { return word_.load(std::memory_order_relaxed); }
  // By the thread of this number: it records. The word from now on; what is read after it is of then or later.
  std::uint64_t take(std::uint32_t number) {
    std::uint64_t word = word_.load();
    for (;;) {
      const std::uint64_t who = word & kWho, mine = std::min<std::uint64_t>(number + 1, kWho);
      if (who == mine || who == kWho) return word;
      const std::uint64_t next = word | (who == 0 ? mine : kWho);
      if (word_.compare_exchange_strong(word, next)) return next;
    }
  }
  // Whether it was one thread.
  static bool alone(std::uint64_t word) { return (word & kWho) != kWho; }

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // of a thread that has taken none, or is to look again

 private:
  static constexpr std::uint64_t kWho = 0xffff;  // as a value: many
  static constexpr unsigned kSessionShift = 48;  // above 2^32 looks
  std::atomic<std::uint64_t> word_{0};
};

}  // namespace heapyard::tracer
