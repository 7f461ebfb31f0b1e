// SPDX-License-Identifier: Apache-2.0
// Where batches wait for somebody to take them: bounded, for any number of threads on both sides.
//
// A lock per batch, not per object: the exchange costs next to nothing beside the thousands of calls that fill and
// empty a batch. Who finds it full or empty sleeps. First come, first served, or, as published, last come, first
// served, where an old batch may wait for as long as newer ones come. O(1) per call.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "../kit/arena.hpp"

namespace heapyard::xmalloc {

template <class T>
class Depot {
 public:
  // Room for `room` items; `producers` threads will leave() one day.
  void prepare(kit::Arena& arena, std::size_t room, std::size_t producers, bool last_first) {
    items_ = arena.take<T*>(room);
    room_ = room;
    producers_ = producers;
    last_first_ = last_first;
  }

  void put(T* item) {
    pthread_mutex_lock(&lock_);
    while (count_ == room_) pthread_cond_wait(&not_full_, &lock_);
    items_[(first_ + count_++) % room_] = item;
    pthread_cond_signal(&not_empty_);
    pthread_mutex_unlock(&lock_);
  }

  // Null when nothing is left and nobody is left to bring more.
  T* take() {
    pthread_mutex_lock(&lock_);
    while (count_ == 0 && producers_ > 0) pthread_cond_wait(&not_empty_, &lock_);
    T* item = nullptr;
    if (count_ > 0) {
      --count_;
      item = items_[(first_ + (last_first_ ? count_ : 0)) % room_];
      if (!last_first_) first_ = (first_ + 1) % room_;
      pthread_cond_signal(&not_full_);
    }
    pthread_mutex_unlock(&lock_);
    return item;
  }

  // A producer has put its last item.
  void leave() {
    pthread_mutex_lock(&lock_);
    if (--producers_ == 0) pthread_cond_broadcast(&not_empty_);
    pthread_mutex_unlock(&lock_);
  }

 private:
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t not_full_ = PTHREAD_COND_INITIALIZER, not_empty_ = PTHREAD_COND_INITIALIZER;
  T** items_ = nullptr;
  // INVARIANT: the `count_` items from `first_` on, round the end, oldest first; count_ <= room_.
  std::size_t room_ = 0, first_ = 0, count_ = 0;
  std::size_t producers_ = 0;
  bool last_first_ = false;
};

}  // namespace heapyard::xmalloc
