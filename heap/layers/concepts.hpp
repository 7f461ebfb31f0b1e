// SPDX-License-Identifier: Apache-2.0
// What a layer may ask of the layer below it, and of the policies it is given. docs/layers.md gives the reasons.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "heap/layers/heap_usage.hpp"

namespace heapyard {

// Pages of the system, as static functions (os/system_pages.hpp).
template <class T>
concept PageSource = requires(void* memory, std::size_t bytes) {
  { T::map(bytes) } -> std::same_as<void*>;
  { T::unmap(memory, bytes) } -> std::same_as<bool>;
  { T::decommit(memory, bytes) } -> std::same_as<bool>;
};

// The same, and a mapping that grows, here or elsewhere; null if it cannot.
template <class T>
concept MovingPageSource = PageSource<T> && requires(void* memory, std::size_t bytes) {
  { T::remap(memory, bytes, bytes) } -> std::same_as<void*>;
};

// Pages with places in the address space, for a window of spans.
template <class T>
concept PlacedPageSource = requires(void* memory, std::size_t bytes) {
  T::window(bytes, bytes);
  T::place(memory, bytes);
  { T::hold(bytes, bytes) } -> std::same_as<void*>;
  { T::place_in_held(memory, bytes, true) } -> std::same_as<bool>;
  { T::filled(memory) } -> std::same_as<bool>;
  { T::limit() } -> std::same_as<std::size_t>;
  { T::charges() } -> std::same_as<bool>;
  { T::unmap(memory, bytes) } -> std::same_as<bool>;
  { T::decommit(memory, bytes) } -> std::same_as<bool>;
};

// How a tree grows: memory of `need` bytes when so many are mapped; `bytes` becomes how many there are.
template <class T>
concept GrowthPolicy = requires(std::size_t need, std::size_t& bytes) {
  { T::map(need, need, bytes) } -> std::same_as<void*>;
};

// Runs of bytes. allocate gives null when the system has no more; alignment is a power of two.
template <class T>
concept RangeSource = requires(T source, const T& constant, void* range, std::size_t bytes) {
  { source.allocate(bytes) } -> std::same_as<void*>;
  { source.allocate_aligned(bytes, bytes) } -> std::same_as<void*>;
  { source.free(range) } -> std::same_as<void>;
  { constant.usable(range) } -> std::same_as<std::size_t>;
  { source.trim() } -> std::same_as<void>;
};

// What a heap has for blocks without a class: ranges that it can also resize and count. kMapsEach: each is a mapping of
// its own, and zero. The words before a range are {size, 0}.
template <class T>
concept LargeSource = RangeSource<T> && requires(T source, void* range, std::size_t bytes) {
  { T::kMapsEach } -> std::convertible_to<bool>;
  { source.resize(range, bytes) } -> std::same_as<bool>;
  { source.move(range, bytes) } -> std::same_as<void*>;  // grown, without a copy; null if that cannot be
  { source.usage() } -> std::same_as<HeapUsage>;
};

// Ranges whose address space can be given back when memory is out; whether there was any.
template <class T>
concept ShrinkingSource = LargeSource<T> && requires(T source) {
  { source.shrink() } -> std::same_as<bool>;
};

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
};

// Spans that hold no block, for any thread.
template <class T>
concept SpanStore = requires(T store, typename T::Span* span, unsigned number) {
  {
    store.get(number, number)
  } -> std::same_as<typename T::Span*>;  // for a class, by a thread; null when there are none
  { store.put(span, number) } -> std::same_as<void>;
};

// Objects of size classes, several under one acquisition. allocate gives how many it got: 0 when memory is out.
template <class T>
concept SpanHeap = requires(T heap, void** blocks, unsigned n, unsigned size_class, unsigned index) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { heap.allocate(size_class, blocks, n, index) } -> std::same_as<unsigned>;
  { heap.free(blocks, n) } -> std::same_as<void>;
  { heap.heap_of_new_thread() } -> std::same_as<unsigned>;
};

// Size classes: which block serves a request. Class numbers are below kClasses; 0 bytes get the smallest block.
template <class T>
concept SizeClasses = requires(std::size_t bytes, unsigned size_class) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { T::kLargest } -> std::convertible_to<std::size_t>;  // a request above it has no class
  { T::is_small(bytes) } -> std::same_as<bool>;         // whether the quick way may be asked
  { T::small_class_of(bytes) } -> std::same_as<unsigned>;
  { T::class_of(bytes) } -> std::same_as<unsigned>;
  { T::bytes_of(size_class) } -> std::same_as<std::size_t>;
};

// Finds pointers aligned to more than 16 bytes inside blocks. All but the first are of pointers that the map owns.
template <class T>
concept AligningClassifier = requires(T& map, void* block, typename T::Holder holder, std::size_t bytes) {
  { map.bytes_to_align(bytes, bytes) } -> std::same_as<std::size_t>;  // to ask for; above kLargest: no block serves
  { map.align(block, bytes) } -> std::same_as<void*>;                 // the aligned pointer into such a block
  { map.start_of(holder, block) } -> std::same_as<void*>;             // the block of such a pointer
};

// What a pointer is: whether it is a block of a size class, and what the front end must know to take it back. That is
// its `Holder`: the span of the block, or its class. Whatever is asked about came from this heap.
template <class T>
concept Classifier = requires(T& map, const void* pointer) {
  requires SizeClasses<typename T::Classes>;
  requires std::is_trivially_copyable_v<typename T::Holder>;
  { map.reserve() } -> std::same_as<void>;  // once, before the heap's first block
  // First in every free; false for blocks without a class. Also false for null if kTellsNull; else nobody asks for
  // null.
  { map.owns(pointer) } -> std::same_as<bool>;
  { T::kTellsNull } -> std::convertible_to<bool>;
  // Of a pointer that the map owns.
  { map.holder_of(pointer) } -> std::same_as<typename T::Holder>;
  { map.usable(pointer) } -> std::same_as<std::size_t>;
  { T::kAligned } -> std::convertible_to<bool>;  // whether each block of 16 bytes or less lies at a multiple of 16
  { T::kAligns } -> std::convertible_to<bool>;   // whether it can do more
  requires !T::kAligns || AligningClassifier<T>;
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

// What can lie on a list of all there ever were, and of those without a thread.
template <class T>
concept Linked = requires(T& made) {
  made.link.load();
  { made.before } -> std::same_as<T*&>;
};

// Objects of one size, a bit each.
template <class T>
concept BitSlab = requires(T* slab, void* object) {
  { slab->bit_of(object) } -> std::convertible_to<std::size_t>;
  slab->words();
};

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

// What a thread touches; one object per heap, which makes a Thread for each. It refuses and gives null where the slow
// path must be taken.
template <class T>
concept FrontEnd = requires(T front, typename T::Thread* thread, const typename T::Visit& visit, unsigned number) {
  typename T::Entry;
  { front.allocate(number) } -> std::same_as<void*>;
  { front.refill(visit, number) } -> std::same_as<void*>;
  { front.start() } -> std::same_as<typename T::Thread*>;
  { front.stop(thread) } -> std::same_as<void>;
  { front.take_over(thread) } -> std::same_as<void>;
  { front.fork_prepare(true) } -> std::same_as<bool>;
  { front.fork_parent() } -> std::same_as<void>;
  { front.fork_child(number) } -> std::same_as<void>;
  { front.free_bytes() } -> std::same_as<std::size_t>;
};

// A front end whose threads keep blocks in stacks, so that it can be made to count them (frontend/sampling.hpp).
template <class T>
concept StackedFrontEnd = FrontEnd<T> && requires(typename T::Thread& thread, unsigned number) {
  { T::kClasses } -> std::convertible_to<unsigned>;
  { T::pop(thread, number) } -> std::same_as<void*>;
};

// One that counts: due() says which block is a sample.
template <class T>
concept CountingFrontEnd = FrontEnd<T> && requires(T front, unsigned number, std::size_t counted) {
  { front.due(number, counted) } -> std::same_as<std::uint32_t>;
};

// A front end that takes back what this classifier finds.
template <class T, class Map>
concept FrontEndOf =
    FrontEnd<T> && requires(T front, const typename T::Visit& visit, typename Map::Holder holder, void* block) {
      { front.free(holder, block) } -> std::same_as<bool>;
      { front.release(visit, holder, block) } -> std::same_as<void>;
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
      { buffer.is_open() } -> std::same_as<bool>;
    };

// Where samples of size classes lie (sampled_blocks.hpp).
template <class T>
concept SampleStore = requires {
  { T::kSampled } -> std::convertible_to<bool>;
  { T::trim() } -> std::same_as<void>;
  { T::usage() } -> std::same_as<HeapUsage>;
};

// Blocks of classes without a span (tight_blocks.hpp). kPacks: whether there are any.
template <class T>
concept TightStore = requires(T& tight, void* block, std::size_t bytes) {
  { T::kPacks } -> std::convertible_to<bool>;
  { tight.owns(block) } -> std::same_as<bool>;
  { tight.free(block) } -> std::same_as<void>;
  { tight.usable(block) } -> std::same_as<std::size_t>;
  { tight.resize(block, bytes) } -> std::same_as<bool>;
  { tight.free_bytes() } -> std::same_as<std::size_t>;
};

// What the shell of a heap joins (heap_shell.hpp): the types, and a static object of each that has one.
template <class T>
concept HeapParts = Classifier<typename T::Map> && FrontEndOf<typename T::Front, typename T::Map> &&
                    LargeSource<typename T::Large> && MovingPageSource<typename T::Outside> &&
                    SampleStore<typename T::Samples> && TightStore<typename T::Tight> && requires {
                      { T::map } -> std::convertible_to<const typename T::Map&>;
                      { T::front } -> std::same_as<typename T::Front&>;
                      { T::large } -> std::same_as<typename T::Large&>;
                      { T::tight } -> std::convertible_to<const typename T::Tight&>;
                      T::pool.trim(true);
                      requires !T::Tight::kPacks || ShrinkingSource<typename T::Large>;
                      { T::map.usage(T::pool) } -> std::same_as<HeapUsage>;
                      requires bool(T::Samples::kSampled) == CountingFrontEnd<typename T::Front>;
                    };

// What became of a span by a free: nothing of note, it has room again, or it holds no block at all.
enum class Transition { none, reusable, empty };

}  // namespace heapyard
