// SPDX-License-Identifier: Apache-2.0
// The distribution pool: one lock-protected heap-class per thread, through which classes reach the threads that share
// them.
//
// A producer gathers what it shares during a tick in an outbox and hands it over under one lock per receiver (paper,
// Figure 6: insertion linear in the number of threads, retrieval linear in the number of lifetime-classes). Classes lie
// in the pool by liveness, not by the producer's clock: the receiver's own clock decides when they expire there. (The
// published code mixes the two clocks, which scrambles lifetimes.)
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "../kit/arena.hpp"
#include "heap_class.hpp"

namespace heapyard::acdc {

// Padded to two lines: neighbours' locks never share a line, nor an adjacent-line prefetch.
struct alignas(2 * kit::kCacheLine) Mailbox {
  pthread_mutex_t lock;
  LifetimeClass* by_liveness;  // [0, max liveness - 1]
};

class Pool {
 public:
  void start(kit::Arena& arena, std::size_t threads, std::uint64_t max_liveness) {
    mailboxes_ = arena.take<Mailbox>(threads);
    max_liveness_ = max_liveness;
    for (std::size_t i = 0; i < threads; ++i) {
      pthread_mutex_init(&mailboxes_[i].lock, nullptr);
      mailboxes_[i].by_liveness = arena.take<LifetimeClass>(max_liveness);
    }
  }

  // Hands over all links of `outbox`; O(links).
  void send(std::size_t receiver, LifetimeClass& outbox) {
    Mailbox& mailbox = mailboxes_[receiver];
    pthread_mutex_lock(&mailbox.lock);
    for (Link* link = outbox.take_all(); link;) {
      Link* const next = link->next;
      mailbox.by_liveness[link->of->liveness - 1].append(link);
      link = next;
    }
    pthread_mutex_unlock(&mailbox.lock);
  }

  // Gives each non-empty lifetime-class to take(liveness, class); O(max liveness).
  template <class Take>
  void retrieve(std::size_t receiver, Take take) {
    Mailbox& mailbox = mailboxes_[receiver];
    pthread_mutex_lock(&mailbox.lock);
    for (std::uint64_t i = 0; i < max_liveness_; ++i) {
      if (mailbox.by_liveness[i].first) take(i + 1, mailbox.by_liveness[i]);
    }
    pthread_mutex_unlock(&mailbox.lock);
  }

 private:
  Mailbox* mailboxes_ = nullptr;
  std::uint64_t max_liveness_ = 0;
};

}  // namespace heapyard::acdc
