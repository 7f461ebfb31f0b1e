// SPDX-License-Identifier: Apache-2.0
// Bookkeeping memory of a mutator: one anonymous mapping, never the heap under test.
//
// Idea: everything a mutator must remember lies in address space reserved at start, handed out by bumping a pointer in
// cache lines, and made resident explicitly, so that the bytes it adds to the process's RSS are known, not guessed
// (the original ACDC subtracts a guess; ACDC paper, section 2.2).
// Cost: reserve O(1) calls; take O(1) plus the first touch of new pages. Threads: take() is not thread-safe, give each
// thread its own arena; resident_bytes() may be read by another thread meanwhile. Errors: a failed mapping ends the
// program with one sentence, before anything is measured.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/fatal.hpp"
#include "base/mapping.hpp"

namespace heapyard::kit {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Reserves `bytes` of address space; nothing is resident yet.
  void reserve(std::size_t bytes) {
    size_ = round_up(bytes, kPage);
    void* const mapping = map_sparse(size_);
    if (mapping == nullptr) fatal(kExitMachine, "cannot map ", size_, " bytes for bookkeeping");
    // A huge page would make more resident than we account for.
    madvise(mapping, size_, MADV_NOHUGEPAGE);
    base_ = static_cast<std::byte*>(mapping);
  }

  // Makes the next `bytes` resident now, so that taking them later faults no page.
  void populate(std::size_t bytes) { touch_up_to(used_ + bytes < size_ ? used_ + bytes : size_); }

  // `count` zeroed objects of T, on cache lines of their own. T must be fine with all bytes zero or be constructed by
  // the caller.
  template <class T>
  T* take(std::size_t count = 1) {
    return static_cast<T*>(take_bytes(sizeof(T) * count, alignof(T)));
  }

  void* take_bytes(std::size_t bytes, std::size_t alignment = kCacheLine) {
    const std::size_t start = round_up(used_, alignment > kCacheLine ? alignment : kCacheLine);
    const std::size_t end = start + round_up(bytes, kCacheLine);
    if (end > size_) fatal(1, "bookkeeping needs more than the ", size_, " bytes computed from the options");
    used_ = end;
    touch_up_to(used_);
    return base_ + start;
  }

  // INVARIANT: resident_ is a multiple of the page size and covers [0, used_).
  std::size_t resident_bytes() const { return resident_.load(std::memory_order_relaxed); }
  std::size_t used_bytes() const { return used_; }

 private:
  void touch_up_to(std::size_t end) {
    std::size_t resident = resident_bytes();
    if (resident >= end) return;
    for (; resident < end; resident += kPage) *reinterpret_cast<volatile char*>(base_ + resident) = 0;
    resident_.store(resident, std::memory_order_relaxed);
  }

  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::atomic<std::size_t> resident_{0};
};

}  // namespace heapyard::kit
