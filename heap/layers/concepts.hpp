// SPDX-License-Identifier: Apache-2.0
// What a layer may ask of the layer below it, and of the policies it is given. docs/layers.md gives the reasons. What
// is asked of spans is in span_concepts.hpp.
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
  { T::limit() } -> std::same_as<std::size_t>;        // of address space
  { T::group_limit() } -> std::same_as<std::size_t>;  // of memory that is touched
  { T::charges() } -> std::same_as<bool>;
  { T::unmap(memory, bytes) } -> std::same_as<bool>;
  { T::decommit(memory, bytes) } -> std::same_as<bool>;
  { T::refuse_huge_pages(memory, bytes) } -> std::same_as<void>;
  { T::prefer_huge_pages(memory, bytes) } -> std::same_as<void>;
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

// What can lie on a list of all there ever were, and of those without a thread.
template <class T>
concept Linked = requires(T& made) {
  made.link.load();
  { made.before } -> std::same_as<T*&>;
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

// How a thread enters a heap and leaves it (process.hpp). `again`: it may not enter, for it is inside, or a fork is
// under way.
template <class T>
concept Doors = requires(const typename T::Visit& visit, void* block) {
  { T::enter() } -> std::same_as<typename T::Visit>;
  { visit.again } -> std::convertible_to<bool>;
  { T::leave(visit) } -> std::same_as<void>;
  { T::put_aside(block) } -> std::same_as<void>;
  { T::pace() } -> std::same_as<void>;
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

}  // namespace heapyard
