// SPDX-License-Identifier: Apache-2.0
// Objects that know their size: written by who makes them, read and checked by who releases them, in whichever thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "../kit/session.hpp"
#include "options.hpp"

namespace heapyard::producer_consumer {

// Source of one worker's sizes and alignments. O(1) per object.
class Maker {
 public:
  Maker(const Options& options, const Sizes& sizes, Random& random)
      : sizes_(sizes), at_(random.below(Sizes::kCount)), one_size_(options.one_size) {}

  // Below 4 KiB the alignment goes through none, 8 and 16 bytes. Resident from the start.
  template <class Operations>
  void* make(Operations& heap, std::uint64_t number) {
    const std::uint64_t size = sizes_.at(one_size_ ? at_ : at_++);
    const std::uint64_t alignment = size < 4096 ? 8 * (made_++ % 3) : 0;
    void* const object = alignment ? heap.allocate_aligned(alignment, size, number) : heap.allocate(size, number);
    kit::write_pages(object, size, 1);
    const auto written = static_cast<std::uint32_t>(size);
    std::memcpy(object, &written, sizeof written);
    heap.hold(size);
    return object;
  }

 private:
  const Sizes& sizes_;
  std::uint64_t at_;
  std::uint64_t made_ = 0;
  bool one_size_;
};

template <class Operations>
void discard(Operations& heap, void* object, std::uint64_t number) {
  std::uint32_t size;
  std::memcpy(&size, object, sizeof size);
  heap.saw(size);
  heap.drop(size);
  heap.release(object, number);
}

}  // namespace heapyard::producer_consumer
