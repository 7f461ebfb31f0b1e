// The recorded blocks that live, by address.
//
// Idea: open addressing, linear probing, deletion by moving back (Knuth, TAOCP 3, 6.4, algorithm R), at most 3/4 full;
// 32 bytes a block. Cost: O(1) expected.
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
  float blocks = 0;  // how many it stands for
};
static_assert(sizeof(Block) == 32);

class LiveBlocks {
 public:
  LiveBlocks() : slots_(1 << 10) {}

  Block* find(std::uint64_t address) {
    for (std::size_t at = home(address);; at = (at + 1) & mask()) {
      if (slots_[at].address == address) return &slots_[at];
      if (slots_[at].address == 0) return nullptr;
    }
  }
  // `block.address` is not in it.
  void insert(const Block& block) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    std::size_t at = home(block.address);
    while (slots_[at].address != 0) at = (at + 1) & mask();
    slots_[at] = block;
    ++size_;
  }
  // `block`: what find() gave.
  void erase(Block* block) {
    std::size_t hole = static_cast<std::size_t>(block - slots_.data());
    for (std::size_t at = (hole + 1) & mask(); slots_[at].address != 0; at = (at + 1) & mask()) {
      const std::size_t wish = home(slots_[at].address);
      if (((at - wish) & mask()) >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = Block{};
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
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t home(std::uint64_t address) const {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15u >> 20) & mask();
  }
  void grow() {
    std::vector<Block> old(slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Block& block : old) {
      if (block.address != 0) insert(block);
    }
  }

  std::vector<Block> slots_;
  std::size_t size_ = 0;
};

}  // namespace heapyard::tracer
