// SPDX-License-Identifier: Apache-2.0
// Random operations of one thread, by a seed.
//
// Idea: faults hide behind habits: a program with tiny blocks only, one that keeps few, one that grows and shrinks. So
// a thread changes its habits every few thousand operations: how large blocks are, how many slots are in use, and which
// calls are frequent. Sizes are drawn by their logarithm, and often lie beside a power of two. Often all
// threads use one size, so that they meet in the same spans. Cost: O(1) an operation.
// Threads: each has its own.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.hpp"
#include "operation.hpp"

namespace heapyard::fuzz {

// What a sequence may do beside calls of one thread.
struct Freedom {
  bool forks = true, limits = true, ends = true;
};

class Generator {
 public:
  Generator(std::uint64_t seed, unsigned thread, Freedom freedom)
      : random_(seed, thread), freedom_(freedom), thread_(static_cast<std::uint8_t>(thread)) {
    constexpr std::uint64_t kStream = 1001;  // no thread's
    Random common(seed, kStream);
    common_size_ = common.below(std::uint64_t{8} << common.below(14));
    duel_ = common.percent(30);
  }

  Operation next() {
    if (left_-- == 0) change_habits();
    Operation operation{};
    operation.thread = thread_;
    operation.slot = static_cast<std::uint16_t>(random_.below(slots_));
    operation.call = draw_call();
    draw_arguments(operation);
    return operation;
  }

 private:
  static constexpr std::size_t kDrawn = 256;  // calls by their weight

  // Weights of a kind of program; each thread has now this one, now another.
  struct Habit {
    std::uint8_t weights[static_cast<std::size_t>(Call::kEnd)];
  };
  static constexpr Habit kHabits[] = {
      // malloc calloc realloc array | aligned posix mem valloc pvalloc | new [] nothrow al []al | release look all give
      {{60, 12, 12, 2, 3, 3, 2, 1, 1, 6, 4, 2, 2, 2, 90, 8, 6, 12, 0, 0, 0, 0, 0}},     // of everything
      {{90, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 90, 4, 4, 0, 0, 0, 0, 0, 0}},        // plain
      {{20, 4, 90, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30, 6, 10, 2, 0, 0, 0, 0, 0}},      // grows
      {{10, 4, 6, 0, 30, 20, 20, 2, 2, 0, 0, 0, 10, 10, 80, 6, 6, 6, 0, 0, 0, 0, 0}},   // aligned
      {{50, 6, 2, 0, 0, 0, 0, 0, 0, 10, 4, 0, 0, 0, 40, 4, 2, 90, 0, 0, 0, 0, 0}},      // to others
      {{90, 20, 6, 0, 0, 0, 0, 0, 0, 10, 4, 0, 0, 0, 10, 2, 2, 4, 0, 0, 0, 0, 0}},      // keeps
      {{4, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 120, 2, 0, 2, 0, 0, 0, 0, 0}},        // gives back
      {{0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 40, 20, 20, 20, 120, 4, 4, 20, 0, 0, 0, 0, 0}},  // C++
  };

  static constexpr Habit kDuel{{100, 4, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 90, 0, 0, 90, 0, 0, 0, 0, 0}};

  void change_habits() {
    left_ = std::uint64_t{200} << random_.below(6);
    const Habit& habit = duel_ ? kDuel : kHabits[random_.below(std::size(kHabits))];
    unsigned total = 0;
    for (const std::uint8_t weight : habit.weights) total += weight;
    std::size_t at = 0;
    unsigned so_far = 0;
    for (std::size_t call = 0; call < std::size(habit.weights); ++call) {
      so_far += habit.weights[call];
      while (at < so_far * kDrawn / total) calls_[at++] = static_cast<Call>(call);
    }
    slots_ = std::uint64_t{8} << random_.below(7);  // up to kSlots
    // Bits of the largest size: mostly small blocks.
    constexpr std::uint8_t kBits[] = {5, 6, 7, 8, 8, 9, 10, 10, 10, 11, 12, 12, 13, 14, 15, 16, 18, 24};
    bits_ = kBits[random_.below(std::size(kBits))];
    if (bits_ > 16) slots_ = slots_ > 64 ? 64 : slots_;
    const std::uint64_t kind = duel_ ? kCommon : random_.below(100);
    one_size_ = kind < 10 ? random_.below(1u << (bits_ < 12 ? bits_ : 12)) : kind <= kCommon ? common_size_ : kNoSize;
  }

  Call draw_call() {
    const std::uint64_t rare = random_.below(1u << 17);
    if (rare >= 24) return calls_[rare % kDrawn];
    if (rare < 2) return freedom_.forks ? Call::kFork : Call::kLook;
    if (rare < 3) return freedom_.limits ? Call::kForkLimited : Call::kLook;
    if (rare < 10) return freedom_.ends ? Call::kEndThread : Call::kLook;
    return rare < 20 ? Call::kAsk : Call::kTrim;
  }

  void draw_arguments(Operation& operation) {
    switch (operation.call) {
      case Call::kCalloc:
      case Call::kReallocarray: {
        const std::uint64_t bytes = draw_size();
        operation.other = bytes == 0 ? random_.below(3) : std::uint64_t{1} << random_.below(6);
        operation.size = bytes / (operation.other == 0 ? 1 : operation.other);
        if (random_.below(4096) == 0) operation.size = ~std::uint64_t{0} / 2 - random_.below(64);
        return;
      }
      case Call::kAlignedAlloc:
      case Call::kPosixMemalign:
      case Call::kMemalign:
      case Call::kNewAligned:
      case Call::kNewArrayAligned:
        operation.size = draw_size();
        // Mostly up to a page; posix_memalign and the rest take no less than a pointer's.
        operation.other = std::uint64_t{8} << (random_.percent(90) ? random_.below(10) : random_.below(19));
        return;
      case Call::kRelease:
        operation.other = random_.below(2);
        return;
      case Call::kGive:
        operation.other = random_.below(kMailboxes);
        return;
      case Call::kFork:
      case Call::kForkLimited:
        operation.size = operation.call == Call::kFork ? 50 + random_.below(200) : 2 + random_.below(62);
        operation.other = random_.next() >> 1;
        return;
      case Call::kLook:
      case Call::kUseAll:
      case Call::kAsk:
      case Call::kTrim:
      case Call::kEndThread:
        return;
      default:
        operation.size = draw_size();
    }
  }

  std::uint64_t draw_size() {
    if (one_size_ != kNoSize && random_.percent(90)) return one_size_;
    const std::uint64_t rare = random_.below(1u << 13);
    if (rare == 0) return absurd();
    const std::uint64_t bits = random_.below(bits_ + 1);
    const std::uint64_t most = std::uint64_t{1} << bits;
    if (rare < 1u << 10) return most + random_.below(33) - (most > 16 ? 16 : 0);  // beside a power of two
    return random_.below(most + 1) | (random_.percent(50) ? most / 2 : 0);
  }

  // Near where sums overflow, and what no machine has; mostly refused.
  std::uint64_t absurd() {
    constexpr std::uint64_t kTop = ~std::uint64_t{0};
    switch (random_.below(5)) {
      case 0:
        return kTop - random_.below(1u << random_.below(24));
      case 1:
        return kTop / 2 - 2048 + random_.below(4096);
      case 2:
        return kTop / 2 + random_.below(1u << 22);
      case 3:
        return (std::uint64_t{1} << (48 + random_.below(15))) + random_.below(4096);
      default:
        return (std::uint64_t{1} << 25) + random_.below(std::uint64_t{1} << 26);  // 32 to 96 MiB
    }
  }

  static constexpr std::uint64_t kNoSize = ~std::uint64_t{0}, kCommon = 45;  // the latter in percent

  Random random_;
  Freedom freedom_;
  std::uint8_t thread_, bits_ = 0;
  std::uint64_t common_size_ = 0;  // of all threads of the seed
  bool duel_ = false;              // they do nothing but take, give and free blocks of it
  std::uint64_t left_ = 0, slots_ = kSlots, one_size_ = kNoSize;
  std::array<Call, kDrawn> calls_{};
};

}  // namespace heapyard::fuzz
