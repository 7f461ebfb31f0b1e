// SPDX-License-Identifier: Apache-2.0
// An allocation buffer: per size class one hot span to allocate from, and a list of spans that are worth reusing.
//
// Idea: scalloc's frontend (OOPSLA 2015, section 3.3). malloc takes blocks from the hot span. free puts a block back
// into its span, whichever thread owns it, and moves the span if need be. A span that is entirely free goes to the pool
// in the very call that empties it (EagerCleanup). A span with more free blocks than the threshold becomes reusable. A
// span of a closed buffer is adopted by the thread that frees into it.
// Cost: constant apart from retries; a new span costs what the pool takes. Threads: one at a time, except for the
// lists, which have a lock each. Lock order: a list's lock alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/core/concurrency.hpp"
#include "heap/core/tagged_stack.hpp"
#include "heap/layers/span_concepts.hpp"
#include "heap/layers/spans/list_span.hpp"
#include "heap/layers/spans/reusable_spans.hpp"

namespace heapyard {

// When an empty span goes to the pool: in the free that empties it, the paper's constant-time frontend.
struct EagerCleanup {
  static constexpr bool kInFree = true, kDrops = false;
};
// When a span is next asked for, which looks through the list of reusable ones: O(its length).
struct LazyCleanup {
  static constexpr bool kInFree = false, kDrops = false;
};
// As the artifact's lazy library did: what is listed and not empty is dropped from the list, to come back when empty.
struct CleanupAsBuilt {
  static constexpr bool kInFree = false, kDrops = true;
};

// Percent: of a span's blocks that must be free for it to be reused; 100 means never before it is empty.
template <SpanClasses ClassesT, ExpectingSpanStore PoolT, unsigned Percent = 80, CleanupPolicy Cleanup = EagerCleanup,
          template <class> class ListsT = ReusableDeque>
class AllocationBuffer {
  static_assert(Cleanup::kInFree || Percent < 100, "an empty span would never be listed");

 public:
  using Classes = ClassesT;
  using Pool = PoolT;
  using Span = typename Pool::Span;  // a ListSpanOf<Concurrency>
  using Lists = ListsT<Span>;
  using Concurrency = typename Span::Concurrency;
  template <class T>
  using Atomic = typename Concurrency::template Atomic<T>;

  static AllocationBuffer nobody;  // no span is hot, so fast paths fail

  constexpr AllocationBuffer() = default;
  constexpr explicit AllocationBuffer(Span* empty) {
    for (Span*& span : hot_) span = empty;
  }

  // A block of the hot span, or null: refill() must be asked.
  void* allocate(unsigned c) {
    Span* const span = hot_[c];
    return span->local != nullptr ? span->take() : nullptr;
  }

  // Whether that was all: the block is of a hot span. Else release() must be asked.
  bool free(Span* span, void* block) {
    if (hot_[span->plain_class.load(std::memory_order_relaxed)] != span) return false;
    span->put_hot(block);
    return true;
  }

  // What allocate() had not at hand. Null when memory is out.
  void* refill(Pool& pool, unsigned c) {
    Span*& hot = hot_[c];
    const auto& shape = Classes::kShapes[c];
    if (hot != &no_span_ && !hot->cut(shape.bytes, shape.blocks)) {
      if (hot->remote_count() > threshold(c)) {
        hot->take_remote();
      } else {
        leave(pool, c);
      }
    }
    if (hot == &no_span_) {
      Span* span = next_span(pool, c);
      if (span == nullptr) return nullptr;
      hot = span;
      if (span->local == nullptr) span->cut(shape.bytes, shape.blocks);
    }
    return hot->take();
  }

  // Frees a block of any span. `buffer`: that of the calling thread, or null.
  static void release(Pool& pool, AllocationBuffer* buffer, Span* span, void* block) {
    std::uint64_t owner = span->owner.load(std::memory_order_acquire);
    const std::uint64_t own = buffer != nullptr ? buffer->id_.load(std::memory_order_relaxed) : 0;
    if (buffer != nullptr && owner == own) {
      if (buffer->hot_[span->in_class()] == span) return span->put_hot(block);
      span->put_local(block, Concurrency::alone());
    } else {
      // From here on the span may be anybody's, unless its owner is gone and we adopt it with our block still out.
      if (buffer != nullptr && closed(owner)) {
        span->owner.compare_exchange_strong(owner, own, std::memory_order_acq_rel);
      }
      span->put_remote(block);
    }
    settle(pool, span, buffer != nullptr ? buffer->number_ : 0);
  }

  // For use under a number of its own, by whoever has the buffer alone.
  void open(unsigned number) {
    const std::uint64_t id = core::Tagged(this, number & 0xffff).word();
    number_ = number;
    for (unsigned c = 0; c < Classes::kClasses; ++c) {
      hot_[c] = &no_span_;
      reusable_[c].open(id);
    }
    id_.store(id, std::memory_order_release);
  }

  // Hot and listed spans float, entirely free ones go to the pool; the others are adopted by who frees into them.
  void close(Pool& pool) {
    for (unsigned c = 1; c < Classes::kClasses; ++c) {
      reusable_[c].close([&](Span* span) { settle(pool, span, number_); });
      if (hot_[c] != &no_span_) leave(pool, c);
    }
    id_.store(0, std::memory_order_release);
  }

  // Brings empty spans that are listed to the pool: for when memory is short. Any thread may, beside the owner too.
  // O(spans listed).
  void release_empty(Pool& pool) {
    for (unsigned c = 1; kKeepsEmpty && c < Classes::kClasses; ++c) {
      reusable_[c].drain(
          Classes::kShapes[c].blocks, false, [&](Span* span) { pool.put(span, number_); },
          [&](Span* span) { settle(pool, span, number_); });
    }
  }

  bool is_open() const { return id_.load(std::memory_order_relaxed) != 0; }

  Atomic<AllocationBuffer*> link{nullptr};  // of a stack of buffers without a thread
  AllocationBuffer* before = nullptr;       // made before this one; never changes

 private:
  // Whether lists may hold empty spans.
  static constexpr bool kKeepsEmpty = !Cleanup::kInFree || !Lists::kRemoves;

  // The hot span floats.
  void leave(Pool& pool, unsigned c) {
    Span* span = hot_[c];
    hot_[c] = &no_span_;
    span->mark_floating();
    settle(pool, span, number_);  // what was freed meanwhile
  }

  static std::uint32_t threshold(unsigned c) { return Classes::kShapes[c].blocks * Percent / 100; }

  // A span for the hot slot, its remote blocks taken.
  Span* next_span(Pool& pool, unsigned c) {
    const auto again = [&](Span* other) { settle(pool, other, number_); };
    if constexpr (!Cleanup::kInFree) {
      const std::uint32_t all = Classes::kShapes[c].blocks;
      reusable_[c].drain(all, Cleanup::kDrops, [&](Span* empty) { pool.put(empty, number_); }, again);
    }
    const std::uint64_t id = id_.load(std::memory_order_relaxed);
    Span* span = reusable_[c].take(id, again);
    if (span == nullptr) {
      span = pool.get(c, number_);
      if (span == nullptr) return nullptr;
      span->mark_hot();
      span->init(c, Classes::kShapes[c].blocks, id);
    }
    span->take_remote();
    return span;
  }

  static bool closed(std::uint64_t owner) {
    const auto* of = core::Tagged(owner).template pointer<AllocationBuffer>();
    return of == nullptr || of->id_.load(std::memory_order_acquire) != owner;
  }

  // What becomes of a span into which blocks came back. Any thread may ask at any time: the sample is taken
  // first, and a transition wins only if nothing moved the span since; a span that is not hot gives no block, so
  // what was counted holds. Bound of the loop: each turn is a transition that another thread made.
  static void settle(Pool& pool, Span* span, unsigned number) {
    for (;;) {
      const std::uint32_t seen = span->sample();
      if (seen & (Span::kHot | Span::kFull)) return;
      const unsigned c = span->in_class();
      const std::uint64_t owner = span->owner.load(std::memory_order_acquire);
      const std::uint32_t all = Classes::kShapes[c].blocks, free = span->free_blocks();
      auto* of = core::Tagged(owner).template pointer<AllocationBuffer>();
      const bool looks = Cleanup::kInFree || (seen & Span::kDropped) || closing(owner, of, c);
      if (kKeepsEmpty && free == all) pool.expect_empty();
      if ((seen & Span::kReuse) && !(seen & Span::kDropped)) {
        if (!Lists::kRemoves || free != all || !looks) return;
        if (of != nullptr && of->reusable_[c].remove(span, seen, owner)) return pool.put(span, number);
      } else if (free == all && looks) {
        if (span->mark_full(seen)) return pool.put(span, number);
      } else {
        if (free <= threshold(c) || (seen & Span::kReuse) || closed(owner)) return;
        const auto again = [&](Span* other) { settle(pool, other, number); };
        if (of->reusable_[c].add(span, seen, owner, again)) return;
      }
    }
  }

  // Whether the owner no longer looks for empty spans of this class itself.
  static bool closing(std::uint64_t owner, const AllocationBuffer* of, unsigned c) {
    return closed(owner) || of->reusable_[c].closing(owner);
  }

  static Span no_span_;  // of nobody: no blocks

  Span* hot_[Classes::kClasses] = {};
  Atomic<std::uint64_t> id_{0};  // core::Tagged of this buffer while it is open; else 0
  unsigned number_ = 0;
  Lists reusable_[Classes::kClasses];
};

template <SpanClasses Classes, ExpectingSpanStore Pool, unsigned Percent, CleanupPolicy Cleanup,
          template <class> class Lists>
constinit typename Pool::Span AllocationBuffer<Classes, Pool, Percent, Cleanup, Lists>::no_span_{};

template <SpanClasses Classes, ExpectingSpanStore Pool, unsigned Percent, CleanupPolicy Cleanup,
          template <class> class Lists>
constinit AllocationBuffer<Classes, Pool, Percent, Cleanup, Lists>
    AllocationBuffer<Classes, Pool, Percent, Cleanup, Lists>::nobody{&no_span_};

}  // namespace heapyard
