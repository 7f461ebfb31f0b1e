// SPDX-License-Identifier: Apache-2.0
// What a layer may ask of spans: of those that hold blocks, of what keeps empty ones, and of their policies.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"

namespace heapyard {

// Addresses in one window, in which spans lie: virtual spans.
template <class T>
concept SpanWindow = requires(T window, const T& constant, const void* pointer, std::size_t bytes) {
  { window.reserve() } -> std::same_as<void>;
  { constant.contains(pointer) } -> std::same_as<bool>;
  { constant.meets(pointer, bytes) } -> std::same_as<bool>;
  { T::kSpan } -> std::convertible_to<std::size_t>;
};

// Spans whose memory comes and goes; `there`: how many of a span's bytes are mapped.
template <class T>
concept SpanSource = requires(T source, void* span, std::size_t bytes, std::size_t& there, bool all) {
  { source.allocate(bytes, there) } -> std::same_as<void*>;  // null when there are none
  { source.extend(span, bytes, there) } -> std::same_as<bool>;
  { source.give_back(span, there, all) } -> std::same_as<void>;
  { source.sparing() } -> std::same_as<bool>;  // where memory is short
};

// Spans that hold no block, for any thread.
template <class T>
concept SpanStore = requires(T store, typename T::Span* span, unsigned number) {
  {
    store.get(number, number)
  } -> std::same_as<typename T::Span*>;  // for a class, by a thread; null when there are none
  { store.put(span, number) } -> std::same_as<void>;
};
// One that is told when lists elsewhere may hold empty spans.
template <class T>
concept ExpectingSpanStore = SpanStore<T> && requires(T store) {
  { store.expect_empty() } -> std::same_as<void>;
};

// Objects of size classes, several under one acquisition. allocate gives how many it got: 0 when memory is out.
template <class T>
concept SpanHeap = requires(T heap, void** blocks, unsigned n, unsigned size_class, unsigned index) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { heap.allocate(size_class, blocks, n, index) } -> std::same_as<unsigned>;
  { heap.free(blocks, n) } -> std::same_as<void>;
  { heap.heap_of_new_thread() } -> std::same_as<unsigned>;
};

// Classes whose spans have shapes: how many blocks of how many bytes, how large, and in which slot of a pool.
template <class T>
concept SpanClasses = requires(unsigned c) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { T::kShapes[c].bytes } -> std::convertible_to<std::size_t>;
  { T::kShapes[c].span } -> std::convertible_to<std::size_t>;
};
template <class T>
concept PooledClasses = requires(unsigned c) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { T::kSlots } -> std::convertible_to<unsigned>;
  { T::kFine } -> std::convertible_to<unsigned>;  // the last class whose empty spans keep their memory
  { T::kShapes[c].span } -> std::convertible_to<std::size_t>;
  { T::kShapes[c].slot } -> std::convertible_to<unsigned>;
};

// Spans of one heap among several, which is told its number and the ranges at each call.
template <class T, class Ranges>
concept BucketOfHeaps = requires(T heap, Ranges& ranges, void** blocks, unsigned n) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { heap.allocate(ranges, n, blocks, n, n) } -> std::same_as<unsigned>;
  { heap.free(ranges, blocks, n) } -> std::same_as<void>;
  { heap.free_bytes(ranges) } -> std::same_as<std::size_t>;
};

// Whether a record that holds no block any more stays on the ring of its class.
template <class T, class Ring>
concept KeepPolicy = requires(const Ring& ring) {
  { T::keep(ring) } -> std::same_as<bool>;
};

// Whether the pool gives the memory of empty spans back.
template <class T>
concept GiveBackPolicy = requires {
  { T::kGivesBack } -> std::convertible_to<bool>;
};

// Objects of one size, a bit each.
template <class T>
concept BitSlab = requires(T* slab, void* object) {
  { slab->bit_of(object) } -> std::convertible_to<std::size_t>;
  slab->words();
};

// Spans on a stack of a pool, which notes in each how much of it is there, and which came before it.
template <class T>
concept PooledSpan = requires(T* span) {
  typename T::Concurrency;
  { span->in_class() } -> std::convertible_to<unsigned>;
  { span->there } -> std::convertible_to<std::size_t>;
  { span->before } -> std::same_as<T*&>;
};

// Spans that have room again; a mark fails if the span moved since the sample (spans/reusable_spans.hpp).
template <class T>
concept ReusableSpan = requires(T* span, std::uint32_t seen) {
  typename T::Concurrency;
  { span->sample() } -> std::same_as<std::uint32_t>;
  { span->mark_reuse(seen) } -> std::same_as<bool>;
  { span->unmark_reuse(seen) } -> std::same_as<bool>;
  span->mark_hot();
};

// Pages that say in their first byte whether they are big.
template <class T>
concept SizedPage = requires(T* page) {
  { page->big_page } -> std::same_as<bool&>;
};

// What finds the slab of a block.
template <class T>
concept SlabFinder = requires(void* block) { T::of(block); };

// When an empty span goes to the pool (allocation_buffer.hpp).
template <class T>
concept CleanupPolicy = requires {
  { T::kInFree } -> std::convertible_to<bool>;
  { T::kDrops } -> std::convertible_to<bool>;
};

// How much a thread may hoard of slabs of a shape, and whether of other threads' slabs.
template <class T>
concept CapacityPolicy = requires {
  { T::kForeign } -> std::convertible_to<bool>;
  T::of;
};

// Slabs with free objects, which a thread claims for itself.
template <class T>
concept SlabStore = SpanClasses<typename T::Classes> && requires(T store, typename T::Slab* slab, unsigned number) {
  { store.claim(number, number) } -> std::same_as<typename T::Slab*>;
  { store.unclaim(slab, number) } -> std::same_as<void>;
  { store.free(slab, std::size_t{}, std::uint64_t{}, number) } -> std::same_as<void>;
};

// An allocation buffer: a front end of one thread, without its thread.
template <class T>
concept ThreadBuffer =
    requires(T buffer, typename T::Pool& pool, typename T::Span* span, void* block, unsigned number) {
      { buffer.allocate(number) } -> std::same_as<void*>;
      { buffer.free(span, block) } -> std::same_as<bool>;
      { buffer.refill(pool, number) } -> std::same_as<void*>;
      { T::release(pool, &buffer, span, block) } -> std::same_as<void>;
      { buffer.open(number) } -> std::same_as<void>;
      { buffer.close(pool) } -> std::same_as<void>;
      { buffer.release_empty(pool) } -> std::same_as<void>;
      { buffer.is_open() } -> std::same_as<bool>;
    };

// What became of a span by a free: nothing of note, it has room again, or it holds no block at all.
enum class Transition { none, reusable, empty };

}  // namespace heapyard
