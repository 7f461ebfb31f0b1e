// SPDX-License-Identifier: Apache-2.0
// Objects in the order of their making, of which the oldest go when together they hold too many bytes.
//
// The number of an object is its place in the order, so none is stored. O(1) per object, amortised. No heap of its own.
#pragma once

#include <cstdint>

#include "../kit/session.hpp"

namespace heapyard::leak_window {

class Fifo {
 public:
  // Holds at most `budget` bytes of objects of at least `least`; their numbers count up from `first_number`.
  void prepare(kit::Arena& arena, std::uint64_t budget, std::uint64_t least, std::uint64_t first_number) {
    budget_ = budget;
    room_ = room(budget, least);
    items_ = arena.take<Item>(room_);
    first_number_ = first_number;
  }
  static std::size_t bytes(std::uint64_t budget, std::uint64_t least) {
    return room(budget, least) * sizeof(Item) + kit::kCacheLine;
  }

  // One more object; its first and last byte and one of each page are written.
  template <class Operations>
  void add(std::uint64_t size, Operations& heap) {
    const std::uint64_t number = first_number_ + made_;
    auto* const object = static_cast<std::uint8_t*>(heap.allocate(size, number));
    kit::write_pages(object, size, static_cast<std::uint8_t>(number));
    heap.hold(size);
    items_[next_] = {object, size};
    next_ = next_ + 1 == room_ ? 0 : next_ + 1;
    ++made_;
    held_ += size;
    while (held_ > budget_) drop_oldest(heap);  // bound: the objects held
  }

  template <class Operations>
  void drain(Operations& heap) {
    while (gone_ < made_) drop_oldest(heap);
  }

 private:
  struct Item {
    std::uint8_t* object;
    std::uint64_t size;
  };

  // One more than fit: the newest is there before the oldest goes.
  static std::uint64_t room(std::uint64_t budget, std::uint64_t least) { return budget / least + 1; }

  template <class Operations>
  void drop_oldest(Operations& heap) {
    const auto [object, size] = items_[oldest_];
    oldest_ = oldest_ + 1 == room_ ? 0 : oldest_ + 1;
    heap.saw(object[0]);
    heap.saw(object[size - 1]);
    heap.drop(size);
    heap.release(object, first_number_ + gone_++);
    held_ -= size;
  }

  Item* items_ = nullptr;
  std::uint64_t room_ = 0, budget_ = 0, first_number_ = 0;
  // INVARIANT: objects gone_ .. made_ - 1 are held, from oldest_ to before next_, held_ bytes of them.
  std::uint64_t made_ = 0, gone_ = 0, oldest_ = 0, next_ = 0, held_ = 0;
};

}  // namespace heapyard::leak_window
