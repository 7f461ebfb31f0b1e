// SPDX-License-Identifier: Apache-2.0
// A blocking queue of bounded length between the two stages of the pipeline, closed when all producers have left.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

namespace word_index {

template <typename Item>
class BoundedQueue {
 public:
  BoundedQueue(std::size_t capacity, std::size_t producers) : capacity_(capacity), producers_(producers) {}

  /// Waits while the queue is full.
  void push(Item item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return items_.size() < capacity_; });
    items_.push_back(std::move(item));
    not_empty_.notify_one();
  }

  /// Each producer calls this once, after its last push.
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--producers_ == 0) not_empty_.notify_all();
  }

  /// Waits for an item; nothing once the queue is empty and every producer has left.
  std::optional<Item> pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !items_.empty() || producers_ == 0; });
    if (items_.empty()) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    not_full_.notify_one();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
  std::deque<Item> items_;
  std::size_t capacity_, producers_;
};

}  // namespace word_index
