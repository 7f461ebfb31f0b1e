// SPDX-License-Identifier: Apache-2.0
// What the layers of a heap of small pages may ask of each other (page_heap.hpp); the other heaps' are in concepts.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"
#include "heap/os/address_space.hpp"

namespace heapyard {

struct PageRun;

// A window of address space of which pieces are mapped, and unmapped; addresses at multiples of the system's pages.
template <class T>
concept GrowingWindow = requires(T window, const T& constant, const void* pointer, std::uintptr_t at) {
  typename T::Pages;
  { T::kAlignment } -> std::convertible_to<std::size_t>;
  { T::kHugePage } -> std::convertible_to<std::size_t>;
  { window.reserve() } -> std::same_as<void>;
  { constant.contains(pointer) } -> std::same_as<bool>;
  { constant.start() } -> std::same_as<std::uintptr_t>;
  { constant.end() } -> std::same_as<std::uintptr_t>;
  { constant.bytes() } -> std::same_as<std::size_t>;
  { window.commit(at, at, true) } -> std::same_as<os::Placed>;
  { window.uncommit(at, at) } -> std::same_as<bool>;
  { window.move(at, at, std::size_t{1}) } -> std::same_as<bool>;
};

// What is known of each page of a window, and the records of runs of pages.
template <class T>
concept RunMap = GrowingWindow<typename T::Window> && requires(T map, PageRun* run, std::uint32_t page) {
  { map.first_page() } -> std::same_as<std::uint32_t>;
  { map.end_page() } -> std::same_as<std::uint32_t>;
  { map.cover(page) } -> std::same_as<bool>;  // false when memory is out
  { map.run_of(page) } -> std::same_as<PageRun*>;
  { map.name_ends(run) } -> std::same_as<void>;
  { map.name_all(run) } -> std::same_as<void>;
  { map.take_record() } -> std::same_as<PageRun*>;  // null when memory is out
  { map.give_record_back(run) } -> std::same_as<void>;
  { map.dirty_in(page, page) } -> std::same_as<std::uint32_t>;
  { map.make_clean(page, page) } -> std::same_as<std::uint32_t>;
};

// Runs of pages, and how much of them is in use.
template <class T>
concept RunSource = RunMap<typename T::Map> && requires(T runs, const T& constant, PageRun* run) {
  { runs.free(run) } -> std::same_as<void>;
  { runs.name_class(run, std::uint8_t{}) } -> std::same_as<void>;
  { constant.memory_of(run) } -> std::same_as<void*>;
  { T::bytes_of(run) } -> std::same_as<std::size_t>;
  { constant.used_bytes() } -> std::same_as<std::size_t>;
  { runs.map() } -> std::same_as<typename T::Map&>;
};

// Blocks of size classes, several under one acquisition. allocate gives how many it got: 0 when memory is out. It may
// change the part of a class that the calling thread takes blocks from.
template <class T>
concept BlockSource = SizeClasses<typename T::Classes> && RunSource<typename T::Runs> &&
                      requires(T source, void** blocks, unsigned n, unsigned size_class, unsigned& part) {
                        { T::kParts } -> std::convertible_to<unsigned>;  // of each class,
                        { source.there() } -> std::same_as<unsigned>;    // and those in use
                        { source.allocate(size_class, blocks, n, part) } -> std::same_as<unsigned>;
                        { source.free(size_class, blocks, n) } -> std::same_as<void>;
                        { source.borrow(size_class) } -> std::same_as<void*>;
                        { source.runs() } -> std::same_as<typename T::Runs&>;
                      };

// What the shell joins: the types, and a static object of each.
template <class T>
concept PageParts = FrontEnd<typename T::Front> && BlockSource<typename T::Pool> && LargeSource<typename T::Large> &&
                    MovingPageSource<typename T::Outside> && requires {
                      { T::spans } -> std::same_as<typename T::Window&>;
                      { T::map } -> std::same_as<typename T::Map&>;
                      { T::runs } -> std::same_as<typename T::Runs&>;
                      { T::pool } -> std::same_as<typename T::Pool&>;
                      { T::front } -> std::same_as<typename T::Front&>;
                      { T::large } -> std::same_as<typename T::Large&>;
                    };

}  // namespace heapyard
