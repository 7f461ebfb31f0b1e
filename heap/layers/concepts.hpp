// SPDX-License-Identifier: Apache-2.0
// What a layer may ask of the layer below it. docs/layers.md gives the reasons.
#pragma once

#include <concepts>
#include <cstddef>

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

// What became of a span by a free: nothing of note, it has room again, or it holds no block at all.
enum class Transition { none, reusable, empty };

}  // namespace heapyard
