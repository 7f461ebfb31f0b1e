// SPDX-License-Identifier: Apache-2.0
// Slots filled in order, of which all but a moving window are released whenever the end is reached.
//
// The window of survivors moves on by its own length each turn and starts over at the end; what lies below it is
// released upwards, what lies above it downwards, and the next turn fills the slots outside it from the first one on.
// An object therefore lives for at most a turn, a survivor for at most two. The published sh6bench overwrites the
// window when it is the first one, and so leaks an object in twenty-one; here every object is released.
// Cost: O(1) per object, amortised.
#pragma once

#include <cstdint>

namespace heapyard::shbench {

class SlotBuffer {
 public:
  // `window` slots survive a turn; at most half of `count`.
  SlotBuffer(void** slots, std::uint64_t count, std::uint64_t window)
      : slots_(slots), count_(count), window_(window), windows_(window ? count / window : 1) {}

  // The slot that the next object goes to.
  std::uint64_t next() const { return next_; }

  template <class Operations>
  void put(void* object, Operations& heap) {
    slots_[next_++] = object;
    if (next_ == saved_) next_ += window_;
    if (next_ == count_) turn(heap);
  }

  // Releases everything that is left.
  template <class Operations>
  void drain(Operations& heap) {
    for (std::uint64_t i = 0; i < next_; ++i) heap.release(slots_[i], i);
    if (saved_ == kNone) return;
    for (std::uint64_t i = next_ > saved_ ? next_ : saved_; i < saved_ + window_; ++i) heap.release(slots_[i], i);
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  // INVARIANT: every slot holds an object here.
  template <class Operations>
  void turn(Operations& heap) {
    saved_ = turns_++ % windows_ * window_;
    for (std::uint64_t i = 0; i < saved_; ++i) heap.release(slots_[i], i);
    for (std::uint64_t i = count_; i > saved_ + window_; --i) heap.release(slots_[i - 1], i - 1);
    next_ = saved_ == 0 ? window_ : 0;
  }

  void** slots_;
  std::uint64_t count_, window_, windows_;
  std::uint64_t next_ = 0, turns_ = 0;
  std::uint64_t saved_ = kNone;  // first slot of the window
};

}  // namespace heapyard::shbench
