// SPDX-License-Identifier: Apache-2.0
// What a block must be: its place, its size, and contents that follow from its number.
//
// Idea: two blocks that overlap write over each other. The first and the last page of a block are written in full,
// between them a few words of at most kInner pages. So whole pages of large blocks are owned besides, in a table over
// all addresses, of which only what is used takes memory. Cost: O(bytes) up to two pages, then O(pages). Threads: a
// block is one thread's; the table is shared.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mapping.hpp"

namespace heapyard::fuzz {

enum class Origin : std::uint8_t { kPlain, kAligned, kNew, kNewArray, kNewAligned, kNewArrayAligned };

struct Block {
  unsigned char* at = nullptr;  // null: none
  std::size_t size = 0;         // of its contents
  std::size_t requested = 0;    // less than that where all that is usable is used
  std::size_t alignment = 0;    // as asked for
  std::uint64_t number = 0;     // of which its contents follow
  Origin origin = Origin::kPlain;
};

// Calls work(offset, bytes) for the parts of a block of `size` that have contents; all but the last 4096 bytes lie
// where they would in a larger block.
template <class Work>
void each_part(std::size_t size, Work work) {
  constexpr std::size_t kPage = 4096, kInner = 8, kWord = 16;
  if (size <= 2 * kPage) return work(std::size_t{0}, size);
  work(std::size_t{0}, kPage);
  const std::size_t step = std::max(kPage, (size / kInner) & ~(kPage - 1));
  for (std::size_t at = kPage; at + kPage < size - kPage; at += step) work(at, kWord);
  work(size - kPage, kPage);
}

inline std::uint64_t word_of(std::uint64_t number, std::size_t index) {
  return (number + 1) * 0x9e3779b97f4a7c15u ^ index * 0xd1342543de82ef95u;
}

inline std::uint64_t load_word(const unsigned char* at) {
  std::uint64_t word;
  __builtin_memcpy(&word, at, sizeof word);
  return word;
}

// Bytes from `offset` on, which is a multiple of 8 but for the last part of a block.
inline void fill_part(const Block& block, std::size_t offset, std::size_t bytes) {
  const auto byte_at = [&](std::size_t at) {
    return static_cast<unsigned char>(word_of(block.number, at / 8) >> at % 8 * 8);
  };
  std::size_t at = offset;
  const std::size_t end = offset + bytes;
  for (; at < end && at % 8 != 0; ++at) block.at[at] = byte_at(at);
  for (; at + 8 <= end; at += 8) {
    const std::uint64_t word = word_of(block.number, at / 8);
    __builtin_memcpy(block.at + at, &word, sizeof word);
  }
  for (; at < end; ++at) block.at[at] = byte_at(at);
}
inline void fill(const Block& block) {
  each_part(block.size, [&](std::size_t offset, std::size_t bytes) { fill_part(block, offset, bytes); });
}

// The first byte in [offset, end) that is not as it was left; `end` if all are. `bytes`: where the block begins.
inline std::size_t first_wrong_in(std::uint64_t number, const unsigned char* bytes, std::size_t offset,
                                  std::size_t end) {
  std::size_t at = offset;
  const auto right = [&](std::size_t place) {
    return bytes[place] == static_cast<unsigned char>(word_of(number, place / 8) >> place % 8 * 8);
  };
  for (; at < end && at % 8 != 0; ++at) {
    if (!right(at)) return at;
  }
  while (at + 8 <= end && load_word(bytes + at) == word_of(number, at / 8)) at += 8;
  while (at < end && right(at)) ++at;
  return at;
}

// The first of its first `most` bytes that is not as it was left; `most` if all are.
inline std::size_t first_wrong(const Block& block, const unsigned char* bytes, std::size_t most) {
  std::size_t wrong = most;
  each_part(block.size, [&](std::size_t offset, std::size_t count) {
    const std::size_t end = std::min(offset + count, most);
    if (wrong != most || offset >= end) return;
    const std::size_t at = first_wrong_in(block.number, bytes, offset, end);
    if (at < end) wrong = at;
  });
  return wrong;
}

class PageOwners {
 public:
  // False: this machine does not give so much address space; overlaps of large blocks are seen less often then.
  bool prepare() {
    owners_ = static_cast<std::atomic<std::uint32_t>*>(map_sparse((kTop / kPage) * sizeof *owners_));
    return owners_ != nullptr;
  }

  // The first address that another block owns; null if there is none.
  const unsigned char* take(const Block& block) {
    if (owners_ == nullptr || block.size > kLargest) return nullptr;
    const auto mine = static_cast<std::uint32_t>(block.number) | 1;
    const std::size_t first = page_of(block.at), last = page_of(block.at + std::max<std::size_t>(block.size, 1) - 1);
    for (const std::size_t page : {first, last}) {
      if (owners_[page].load(std::memory_order_relaxed) != 0) return at(page);
    }
    const unsigned char* taken = nullptr;
    each_whole_page(block, [&](std::size_t page) {
      if (owners_[page].exchange(mine, std::memory_order_relaxed) != 0) taken = at(page);
    });
    return taken;
  }
  void give_back(const Block& block) {
    if (owners_ == nullptr || block.size > kLargest) return;
    each_whole_page(block, [&](std::size_t page) { owners_[page].store(0, std::memory_order_relaxed); });
  }

 private:
  static constexpr std::size_t kPage = 4096, kTop = std::size_t{1} << 47, kLargest = std::size_t{1} << 28;

  static std::size_t page_of(const unsigned char* at) {
    return std::min(reinterpret_cast<std::uintptr_t>(at), kTop - 1) / kPage;
  }
  static const unsigned char* at(std::size_t page) { return reinterpret_cast<const unsigned char*>(page * kPage); }
  template <class Work>
  static void each_whole_page(const Block& block, Work work) {
    if (block.size < kPage) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(block.at);
    for (std::size_t page = (begin + kPage - 1) / kPage; (page + 1) * kPage <= begin + block.size; ++page) work(page);
  }

  std::atomic<std::uint32_t>* owners_ = nullptr;
};

}  // namespace heapyard::fuzz
