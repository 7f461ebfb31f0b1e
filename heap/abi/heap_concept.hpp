// SPDX-License-Identifier: Apache-2.0
// What a composition must offer to be exported as a malloc library.
#pragma once

#include <concepts>
#include <cstddef>

namespace heapyard::abi {

// All members are static: a type is one heap, ready before the first instruction. Null, with
// errno ENOMEM, and false mean that memory is out; `block` is never null but in free. Alignments are powers of two.
template <class T>
concept ExportableHeap = requires(void* block, const void* read_only, std::size_t bytes) {
  { T::kSampled } -> std::convertible_to<bool>;  // whether a listener may count its blocks
  { T::begin() } -> std::same_as<void>;
  { T::allocate(bytes) } -> std::same_as<void*>;
  { T::allocate_aligned(bytes, bytes) } -> std::same_as<void*>;
  { T::allocate_zeroed(bytes) } -> std::same_as<void*>;
  { T::free(block) } -> std::same_as<void>;
  { T::resize(block, bytes) } -> std::same_as<bool>;  // in place
  { T::move(block, bytes) } -> std::same_as<void*>;   // elsewhere, without a copy; null: it cannot, and errno is kept
  { T::usable(read_only) } -> std::same_as<std::size_t>;
  { T::trim() } -> std::same_as<bool>;
  { T::usage().mapped } -> std::convertible_to<std::size_t>;
  { T::usage().free } -> std::convertible_to<std::size_t>;
};

}  // namespace heapyard::abi
