// SPDX-License-Identifier: Apache-2.0
// A circular list whose elements hold their own links; the owner holds one pointer, to the front.
//
// Cost: every operation O(1); moving the front to the back turns the ring and touches no element.
#pragma once

namespace heapyard::core {

// T has members `T* next` and `T* prev`, meaningful while it is in the ring.
template <class T>
class Ring {
 public:
  constexpr Ring() = default;

  T* front() const { return front_; }
  bool empty() const { return front_ == nullptr; }

  void push_front(T* item) {
    if (front_ == nullptr) {
      item->next = item->prev = item;
    } else {
      item->next = front_;
      item->prev = front_->prev;
      item->prev->next = item;
      front_->prev = item;
    }
    front_ = item;
  }

  void front_to_back() { front_ = front_->next; }

  void remove(T* item) {
    if (item->next == item) {
      front_ = nullptr;
      return;
    }
    item->prev->next = item->next;
    item->next->prev = item->prev;
    if (front_ == item) front_ = item->next;
  }

 private:
  T* front_ = nullptr;
};

}  // namespace heapyard::core
