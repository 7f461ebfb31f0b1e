// SPDX-License-Identifier: Apache-2.0
// Threads that replace objects of random sizes in slots of their own and send whole batches to each other.
//
// After rpmalloc-benchmark (Jansson). In each loop a thread takes the batches that others sent to it. It releases up to
// 0.8 x operations of its slots, then the batches, fills up to `operations` slots (releasing what is there), and
// every `cross_rate`-th loop sends a batch of as many objects to the next of the other threads. Shares of operations
// are uniform in 30..99 percent; slots are visited in strides of small primes. After each round everything is freed.
// At most `in_flight` batches wait for one thread, else memory would measure how the scheduler treats senders and
// receivers; the original sets no bound.
// Cost O(loops x operations) calls. Bookkeeping: 8 bytes per slot.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "objects.hpp"

namespace heapyard::producer_consumer {

// Objects on their way to another thread; the batch lies on the heap under test, as in the original.
struct Batch {
  Batch* next;
  std::uint64_t number;  // of the batch; its objects have the following ones
  std::uint64_t count;
  void** objects() { return reinterpret_cast<void**>(this + 1); }
  std::uint64_t bytes() const { return bytes_for(count); }
  static std::uint64_t bytes_for(std::uint64_t count) { return sizeof(Batch) + count * sizeof(void*); }
};

// Batches sent to one thread: anyone pushes, the owner takes all, so no node is popped while another looks at it.
class alignas(2 * kit::kCacheLine) Inbox {
 public:
  // False when `most` batches wait already; senders that look at once may exceed it by one each.
  bool has_room(std::uint64_t most) const { return most == 0 || waiting_.load(std::memory_order_relaxed) < most; }
  void push(Batch* batch) {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    Batch* head = head_.load(std::memory_order_relaxed);
    do batch->next = head;
    while (!head_.compare_exchange_weak(head, batch, std::memory_order_release, std::memory_order_relaxed));
  }
  Batch* take_all() {
    if (!head_.load(std::memory_order_relaxed)) return nullptr;
    Batch* const all = head_.exchange(nullptr, std::memory_order_acquire);
    for (const Batch* batch = all; batch; batch = batch->next) waiting_.fetch_sub(1, std::memory_order_relaxed);
    return all;
  }

 private:
  std::atomic<Batch*> head_{nullptr};
  std::atomic<std::uint64_t> waiting_{0};
};

class Exchange {
 public:
  Exchange(const Options& options, const Sizes& sizes, kit::Session& session)
      : options_(options), sizes_(sizes), session_(session), strides_(strides(slots())) {
    for (std::size_t i = 0; i < session.threads(); ++i) {
      kit::Worker& worker = session.worker(i);
      worker.make_table<Own>(1);
      new (worker.table<Own>()) Own{{}, worker.arena.take<void*>(slots()), 0, 0, i, 0};
    }
  }
  static std::size_t bytes_per_worker(const Options& options) {
    return sizeof(Own) + static_cast<std::size_t>(options.blocks) * sizeof(void*) + 4 * kit::kCacheLine;
  }

  template <class Operations>
  void before(kit::Worker&, Operations&) {}

  template <class Operations>
  void measured(kit::Worker& worker, Operations& heap) {
    Own& own = *worker.table<Own>();
    Maker maker(options_, sizes_, worker.random);
    own.receiver = worker.index;
    own.next_batch = kBatches + (static_cast<std::uint64_t>(worker.index) << kBatchBits);
    const bool sends = options_.cross_rate > 0 && session_.threads() > 1;
    for (std::int64_t round = 1; round <= options_.rounds; ++round) {
      for (std::int64_t loop = 1; loop <= options_.loops; ++loop) {
        const std::uint64_t filled = replace(worker, own, maker, heap);
        if (sends && loop % options_.cross_rate == 0) send(worker, own, maker, heap, filled);
      }
      free_everything(own, heap, static_cast<std::uint64_t>(round));
    }
  }

  template <class Operations>
  void after(kit::Worker&, Operations&) {}

  // Smallest primes from 7 on that do not divide the slots, so that a walk in such strides visits every slot.
  struct Strides {
    std::uint64_t release, fill;
  };
  static Strides strides(std::uint64_t slots) {
    constexpr std::uint64_t kPrimes[] = {7,  11, 13, 17, 19, 23, 29, 31, 37, 41, 43,  47,
                                         53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103};
    std::uint64_t found[2] = {1, 1};
    std::size_t count = 0;
    for (const std::uint64_t prime : kPrimes)
      if (count < 2 && slots % prime) found[count++] = prime;
    return {found[0], found[1]};
  }

  static constexpr std::uint64_t kBatches = std::uint64_t{1} << 62;  // numbers of batches and of what is in them
  static constexpr unsigned kBatchBits = 44;                         // numbers of one thread

 private:
  struct Own {
    Inbox inbox;
    void** slots;
    std::uint64_t release_at, fill_at;  // slots where the two walks go on
    std::size_t receiver;               // of the last batch
    std::uint64_t next_batch;           // number of the next one
  };

  std::uint64_t slots() const { return static_cast<std::uint64_t>(options_.blocks); }
  std::uint64_t part(Random& random) const {
    return static_cast<std::uint64_t>(options_.operations) * random.between(30, 99) / 100;
  }

  // Releases some slots and what others sent, fills others; how many were filled.
  template <class Operations>
  std::uint64_t replace(kit::Worker& worker, Own& own, Maker& maker, Operations& heap) {
    Batch* const received = own.inbox.take_all();
    const std::uint64_t releases = part(worker.random) * 4 / 5;
    const std::uint64_t fills = part(worker.random);
    for (std::uint64_t i = 0; i < releases; ++i) {
      if (void*& slot = own.slots[own.release_at]) discard(heap, std::exchange(slot, nullptr), own.release_at);
      own.release_at = (own.release_at + strides_.release) % slots();
    }
    discard_all(heap, received);
    for (std::uint64_t i = 0; i < fills; ++i) {
      void*& slot = own.slots[own.fill_at];
      if (slot) discard(heap, slot, own.fill_at);
      slot = maker.make(heap, own.fill_at);
      own.fill_at = (own.fill_at + strides_.fill) % slots();
    }
    return fills;
  }

  // A batch of `count` objects to the next thread in turn that is not this one.
  template <class Operations>
  void send(kit::Worker& worker, Own& own, Maker& maker, Operations& heap, std::uint64_t count) {
    do own.receiver = (own.receiver + 1) % session_.threads();
    while (own.receiver == worker.index);
    Inbox& inbox = session_.worker(own.receiver).template table<Own>()->inbox;
    while (!inbox.has_room(static_cast<std::uint64_t>(options_.in_flight))) {
      discard_all(heap, own.inbox.take_all());  // two that wait for each other must not wait for ever
      sched_yield();
    }
    auto* const batch = static_cast<Batch*>(heap.allocate(Batch::bytes_for(count), own.next_batch));
    heap.hold(Batch::bytes_for(count));
    batch->number = own.next_batch;
    batch->count = count;
    for (std::uint64_t i = 0; i < count; ++i) batch->objects()[i] = maker.make(heap, batch->number + 1 + i);
    own.next_batch += count + 1;
    inbox.push(batch);
  }

  // The end of a round: nobody goes on before every batch and every slot has been released.
  template <class Operations>
  void free_everything(Own& own, Operations& heap, std::uint64_t round) {
    finished_.fetch_add(1, std::memory_order_release);
    while (finished_.load(std::memory_order_acquire) < session_.threads() * round) {
      discard_all(heap, own.inbox.take_all());  // somebody may wait for room here
      sched_yield();
    }
    discard_all(heap, own.inbox.take_all());
    for (std::uint64_t i = 0; i < slots(); ++i)
      if (own.slots[i]) discard(heap, std::exchange(own.slots[i], nullptr), i);
    session_.wait_for_all();
  }

  template <class Operations>
  void discard_all(Operations& heap, Batch* batch) {
    while (batch) {
      for (std::uint64_t i = 0; i < batch->count; ++i) discard(heap, batch->objects()[i], batch->number + 1 + i);
      Batch* const next = batch->next;
      heap.drop(batch->bytes());
      heap.release(batch, batch->number);
      batch = next;
    }
  }

  const Options& options_;
  const Sizes& sizes_;
  kit::Session& session_;
  Strides strides_;
  std::atomic<std::uint64_t> finished_{0};  // threads that have sent their last batch of the round, over all rounds
};

}  // namespace heapyard::producer_consumer
