// Numbers for call chains, small enough to be part of a word.
//
// Idea: a chain's number is the place of its hash in a table that is only ever added to, without a lock: the first
// empty place of its line of the first level, each level twice as large as the one before, in which there is one. So
// few chains touch little memory. Threads: nothing is taken out, so all find the same first empty place. Cost: O(levels
// in use), a line each. Errors: full: 0; the caller counts it.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/session/owner.hpp"

namespace heapyard::tracer {

class ChainNumbers {
 public:
  // False: there is no address space.
  bool prepare() {
    if (hashes_ != nullptr) return true;
    void* memory = mmap(nullptr, Owner::kChains * sizeof *hashes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    hashes_ = static_cast<std::atomic<std::uint64_t>*>(memory);
    return true;
  }

  // From 1 on. `hash`: not 0.
  std::uint64_t of(std::uint64_t hash) {
    // The first level, of kFirst places, begins at kFirst; a level of n places at n. Below lies what is no number.
    for (std::uint64_t level = kFirst; level < Owner::kChains; level *= 2) {
      const std::uint64_t line = level + (hash & (level - 1) & ~(kLine - 1));
      for (std::uint64_t at = line; at < line + kLine; ++at) {
        std::uint64_t there = hashes_[at].load(std::memory_order_relaxed);
        if (there == 0 && hashes_[at].compare_exchange_strong(there, hash)) there = hash;
        if (there == hash) return at;
      }
    }
    return 0;
  }
  // 0 of number 0.
  std::uint64_t hash_of(std::uint64_t number) const { return hashes_[number].load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kFirst = 1 << 10, kLine = 8;
  std::atomic<std::uint64_t>* hashes_ = nullptr;
};

}  // namespace heapyard::tracer
