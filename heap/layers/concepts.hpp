// SPDX-License-Identifier: Apache-2.0
// What a layer may ask of the layer below it. docs/layers.md gives the reasons.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace heapyard {

// Runs of bytes. allocate gives null when the system has no more; alignment is a power of two.
template <class T>
concept RangeSource = requires(T source, const T& constant, void* range, std::size_t bytes) {
  { source.allocate(bytes) } -> std::same_as<void*>;
  { source.allocate_aligned(bytes, bytes) } -> std::same_as<void*>;
  { source.free(range) } -> std::same_as<void>;
  { constant.usable(range) } -> std::same_as<std::size_t>;
  { source.trim() } -> std::same_as<void>;
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

// What became of a span by a free: nothing of note, it has room again, or it holds no block at all.
enum class Transition { none, reusable, empty };

}  // namespace heapyard
