// SPDX-License-Identifier: Apache-2.0
// Which addresses of a window are blocks that the program has: a bit for every 16 bytes, out of band.
//
// Idea: a block is marked when it is handed out. Whoever frees it takes the mark off, and knows by that very step
// whether it was there: of two threads that free a block twice, one finds no mark. A second mark, of the 16 bytes after
// the block's start, tells large blocks that have a guard. Cost: an atomic operation each; 256 KiB for
// each 32 MiB of the window that has blocks, of which pages that have some are touched. Threads: any. Errors: blocks
// for whose marks there is no memory count as marked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/layers/concepts.hpp"

namespace heapyard {

template <PageSource Pages>
class BlockMarks {
 public:
  constexpr BlockMarks() = default;

  // For addresses in [start, start + bytes). Before the first mark, by one thread.
  void lay_out(std::uintptr_t start, std::size_t bytes) {
    if (pieces_ != nullptr) return;
    start_ = start;
    pieces_ = static_cast<std::atomic<Piece*>*>(Pages::map((bytes / kPiece + 1) * sizeof(std::atomic<Piece*>)));
  }

  void set(const void* block) {
    if (Piece* piece = piece_of(block, true)) piece->word[word(block)].fetch_or(bit(block), kOrder);
  }
  // Whether the mark was there; it is not any more.
  bool take(const void* block) {
    Piece* piece = piece_of(block, false);
    return piece == nullptr ? unknown() : (piece->word[word(block)].fetch_and(~bit(block), kOrder) & bit(block)) != 0;
  }
  bool has(const void* block) const {
    const Piece* piece = piece_of(block, false);
    return piece == nullptr ? unknown() : (piece->word[word(block)].load(kOrder) & bit(block)) != 0;
  }
  // The same, but what nobody knows is not marked.
  bool surely_has(const void* block) const {
    const Piece* piece = piece_of(block, false);
    return piece != nullptr && (piece->word[word(block)].load(kOrder) & bit(block)) != 0;
  }

 private:
  static constexpr std::size_t kGranule = 16, kPiece = std::size_t{32} << 20;  // bytes
  static constexpr auto kOrder = std::memory_order_relaxed;
  struct Piece {
    std::atomic<std::uint64_t> word[kPiece / kGranule / 64];
  };

  // Once a piece could not be had, a mark that is not there says nothing.
  bool unknown() const { return pieces_ == nullptr || lost_.load(kOrder); }

  Piece* piece_of(const void* block, bool make) const {
    if (pieces_ == nullptr) return nullptr;
    std::atomic<Piece*>& at = pieces_[offset(block) / kPiece];
    Piece* piece = at.load(std::memory_order_acquire);
    if (piece != nullptr || !make) return piece;
    auto* made = static_cast<Piece*>(Pages::map(sizeof(Piece)));
    if (made == nullptr) return lost_.store(true, kOrder), nullptr;
    if (at.compare_exchange_strong(piece, made, std::memory_order_acq_rel)) return made;
    Pages::unmap(made, sizeof(Piece));
    return piece;
  }
  std::size_t offset(const void* block) const { return reinterpret_cast<std::uintptr_t>(block) - start_; }
  std::size_t word(const void* block) const { return offset(block) % kPiece / kGranule / 64; }
  std::uint64_t bit(const void* block) const { return std::uint64_t{1} << offset(block) / kGranule % 64; }

  std::uintptr_t start_ = 0;
  std::atomic<Piece*>* pieces_ = nullptr;
  mutable std::atomic<bool> lost_{false};
};

}  // namespace heapyard
