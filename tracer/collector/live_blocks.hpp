// SPDX-License-Identifier: Apache-2.0
// The recorded blocks that live, by address.
//
// Idea: open addressing, linear probing, deletion by moving back (Knuth, TAOCP 3, 6.4, algorithm R), at most 3/4 full;
// 40 bytes a block. Cost: O(1) expected.
#pragma once

#include <cstdint>
#include <vector>

namespace heapyard::tracer {

struct Block {
  std::uint64_t address = 0;  // 0: no block
  std::uint64_t stamp = 0;
  std::uint64_t bytes : 48 = 0;   // what it stands for
  std::uint64_t thread : 16 = 0;  // who allocated it
  std::uint32_t chain = 0;
  float blocks = 0;            // how many it stands for
  std::uint64_t rounding = 0;  // bytes beyond, that may be used
};
static_assert(sizeof(Block) == 40);

class LiveBlocks {
 public:
  Block* find(std::uint64_t address) {
    Block* slots = slots_.data();
    for (std::size_t at = home(address);; at = (at + 1) & mask_) {
      if (slots[at].address == address) return &slots[at];
      if (slots[at].address == 0) return nullptr;
    }
  }
  // `block.address` is not in it.
  void insert(const Block& block) {
    if (size_ == most_) [[unlikely]]
      grow();
    Block* slots = slots_.data();
    std::size_t at = home(block.address);
    while (slots[at].address != 0) at = (at + 1) & mask_;
    slots[at] = block;
    ++size_;
  }
  // `block`: what find() gave.
  void erase(Block* block) {
    Block* slots = slots_.data();
    std::size_t hole = static_cast<std::size_t>(block - slots);
    for (std::size_t at = (hole + 1) & mask_; slots[at].address != 0; at = (at + 1) & mask_) {
      const std::size_t wish = home(slots[at].address);
      if (((at - wish) & mask_) >= ((at - hole) & mask_)) {
        slots[hole] = slots[at];
        hole = at;
      }
    }
    slots[hole].address = 0;
    --size_;
  }
  std::size_t size() const { return size_; }
  std::vector<Block> all() const {
    std::vector<Block> blocks;
    for (const Block& block : slots_) {
      if (block.address != 0) blocks.push_back(block);
    }
    return blocks;
  }

 private:
  std::size_t home(std::uint64_t address) const {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15u >> 20) & mask_;
  }
  [[gnu::noinline, gnu::cold]] void grow() {
    std::vector<Block> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    most_ = slots_.size() / 4 * 3;
    size_ = 0;
    for (const Block& block : old) {
      if (block.address != 0) insert(block);
    }
  }

  std::vector<Block> slots_ = std::vector<Block>(1 << 10);
  std::size_t mask_ = slots_.size() - 1, most_ = slots_.size() / 4 * 3;
  std::size_t size_ = 0;
};

}  // namespace heapyard::tracer
