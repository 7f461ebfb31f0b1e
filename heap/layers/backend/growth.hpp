// SPDX-License-Identifier: Apache-2.0
// By which steps a range source grows. This is a policy, because the BFM paper says only "sbrk if necessary".
//
// map(need, mapped, bytes): memory of at least `need` bytes when `mapped` are mapped already; `bytes` becomes how many
// there are. Null when the system has no more. Cost: up to four system calls.
#pragma once

#include <cstddef>

#include "heap/layers/concepts.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// A mebibyte at a time, in the system's usual pages.
template <PageSource Pages>
struct SmallSteps {
  static constexpr std::size_t kStep = std::size_t{1} << 20;

  static void* map(std::size_t need, std::size_t, std::size_t& bytes) {
    bytes = os::round_up(need < kStep ? kStep : need, os::page_bytes());
    void* memory = Pages::map(bytes);
    if (memory != nullptr || bytes == need) return memory;
    bytes = os::round_up(need, os::page_bytes());
    return Pages::map(bytes);
  }
};

// Once the heap is large, huge pages: 512 page faults in one. From kHugeFrom on the page that is not yet full wastes a
// few percent at most. Only small requests ask for them: of a block above kDense a program may touch a fraction, and a
// huge page would hold all of it.
template <PageSource Pages>
struct HugeSteps {
  static constexpr std::size_t kHuge = std::size_t{2} << 20;
  static constexpr std::size_t kHugeFrom = std::size_t{16} << 20;
  static constexpr std::size_t kDense = std::size_t{16} << 10;  // at worst one page of four is touched

  static void* map(std::size_t need, std::size_t mapped, std::size_t& bytes) {
    if (mapped >= kHugeFrom && need <= kDense) {
      bytes = kHuge;
      if (void* memory = Pages::map_aligned(kHuge, kHuge)) {
        Pages::prefer_huge_pages(memory, kHuge);
        return memory;
      }
    }
    return SmallSteps<Pages>::map(need, mapped, bytes);
  }
};

}  // namespace heapyard
