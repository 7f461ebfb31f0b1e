// SPDX-License-Identifier: Apache-2.0
// A heap of pages that finds mistakes of the program, and makes what they do harder to foresee.
//
// Idea: the heap below is as it is; this layer stands before it.
//   marks       every block that the program has is marked out of band (block_marks.hpp). A free or realloc of what has
//               no mark ends the program: freed twice, inside of a block, or never allocated.
//   slots       a small block that is freed lies for a while in a place chosen at random, and one that is handed out
//               comes from such a place (shuffled_slots.hpp).
//   patterns    the first bytes of a small block that waits are looked at when it leaves; what was written after its
//               free ends the program.
//   guards      behind a large block lies a page that nobody may touch.
// Cost: an atomic operation for the mark each way, an exchange for small blocks, two system calls for a large block
// with its guard. Memory: see BlockMarks; kWaiting blocks that wait, of kSmall bytes at most; a page for each guard.
// Threads: any. Errors: as below; a mistake is a sentence and abort().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/layers/backend/page_map.hpp"
#include "heap/layers/block_marks.hpp"
#include "heap/layers/heap_usage.hpp"
#include "heap/layers/shuffled_slots.hpp"
#include "heap/os/fault.hpp"
#include "heap/os/guard_page.hpp"
#include "heap/os/lock.hpp"
#include "heap/os/pages.hpp"

namespace heapyard {

// H: PageHeap of some parts.
template <class H>
class HardenedHeap {
  using Parts = typename H::Layered;
  using Classes = typename Parts::Front::Classes;

 public:
  static constexpr bool kSampled = H::kSampled;
  static constexpr std::size_t kSmall = 1024;                      // bytes of blocks that wait and are shuffled
  static constexpr unsigned kWaiting = 256, kReady = 8;            // blocks after free; of each class before malloc
  static constexpr std::size_t kGuarded = std::size_t{128} << 10;  // bytes from which on a block has a guard
  static constexpr unsigned kMostGuards = 8192;  // each may make two mappings more, of the system's 65,530

  static void begin() {
    H::begin();
    marks();
  }

  static void* allocate(std::size_t bytes) {
    if (bytes >= kGuarded) return allocate_guarded(bytes, kAlignment);
    void* block = H::allocate(bytes);
    return block == nullptr ? nullptr : handed_out(bytes <= kSmall ? another(block) : block);
  }
  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (bytes >= kGuarded) return allocate_guarded(bytes, alignment);
    void* block = H::allocate_aligned(bytes, alignment);
    return block == nullptr ? nullptr : handed_out(block);
  }
  static void* allocate_zeroed(std::size_t bytes) {
    if (bytes <= kSmall) {
      void* block = allocate(bytes);
      return block == nullptr ? nullptr : std::memset(block, 0, bytes);
    }
    void* block = bytes >= kGuarded ? H::allocate_zeroed(with_guard(bytes)) : H::allocate_zeroed(bytes);
    if (block == nullptr) return nullptr;
    if (bytes >= kGuarded) guard(block);
    return handed_out(block);
  }

  static void free(void* block) {
    if (block == nullptr) return;
    took_back("free", block);
    const unsigned c = class_of(block);
    if (c == 0) return unguard(block) ? H::free(block) : void();
    if (Classes::bytes_of(c) > kSmall) return H::free(block);
    write_pattern(block, Classes::bytes_of(c));
    if (void* old = waiting_.exchange(block)) give_back(old);
  }

  static bool resize(void* block, std::size_t bytes) {
    if (!known(block)) wrong("realloc", block);
    if (!is_guarded(block)) return bytes < kGuarded && H::resize(block, bytes);
    const std::size_t now = usable(block);
    return bytes <= now && bytes >= now / 2;
  }
  // A guarded block may also grow where it is: its guard goes away once.
  static void* move(void* block, std::size_t bytes) {
    if (!known(block)) wrong("realloc", block);
    const bool guarded = is_guarded(block);
    if (bytes < kGuarded || !unguard(block)) return nullptr;
    void* moved = guarded && H::resize(block, with_guard(bytes)) ? block : H::move(block, with_guard(bytes));
    if (moved == nullptr) {
      if (guarded) guard(block);  // the last page of another may hold something
      return nullptr;
    }
    if (moved != block && Parts::spans.contains(block)) marks_.take(block);
    guard(moved);
    return handed_out(moved);
  }

  static std::size_t usable(const void* block) {
    const std::size_t bytes = H::usable(block);
    return is_guarded(block) ? bytes - os::page_bytes() : bytes;
  }

  static bool trim() {
    waiting_.drain(give_back);
    for (auto& slots : ready_) slots.drain(H::free);
    return H::trim();
  }
  // Blocks that wait are free.
  static HeapUsage usage() {
    HeapUsage usage = H::usage();
    const auto count = [&](const void* block) { usage.free += Classes::bytes_of(class_of(block)); };
    waiting_.for_each(count);
    for (const auto& slots : ready_) slots.for_each(count);
    return usage;
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr unsigned kSmallClasses = Classes::class_of(kSmall) + 1;

  // Of addresses of the window the class; 0 for others.
  static unsigned class_of(const void* block) {
    return Parts::spans.contains(block) ? Parts::Map::class_of(Parts::spans, block) : 0;
  }

  // One of its class that was ready, in place of this one.
  static void* another(void* block) {
    const unsigned c = class_of(block);
    if (c == 0 || c >= kSmallClasses) return block;  // a mapping, while a fork is under way; or one of a larger class
    void* other = ready_[c].exchange(block);
    while (other == nullptr) {  // bound: until a place is taken, kReady at most on average
      other = H::allocate(Classes::bytes_of(c));
      if (other == nullptr || class_of(other) != c) return other != nullptr ? other : ready_[c].exchange(nullptr);
    }
    return other;
  }

  static void* handed_out(void* block) {
    if (Parts::spans.contains(block)) marks().set(block);
    return block;
  }
  static BlockMarks<typename Parts::Outside>& marks() {
    if (!laid_out_.load(std::memory_order_acquire)) [[unlikely]] {
      const os::Locked locked(lock_);
      marks_.lay_out(Parts::spans.start(), Parts::spans.bytes());
      laid_out_.store(true, std::memory_order_release);
    }
    return marks_;
  }
  static bool known(const void* block) {
    if (!Parts::spans.contains(block)) return is_mapping(block);
    if (reinterpret_cast<std::uintptr_t>(block) % kAlignment != 0 || !marks_.has(block)) return false;
    return class_of(block) != 0 || Parts::runs.memory_of(Parts::map.run_of(Parts::map.page_of(block))) == block;
  }
  static void took_back(const char* call, void* block) {
    if (!known(block) || (Parts::spans.contains(block) && !marks_.take(block))) wrong(call, block);
  }

  // Outside of the window: whether a mapping of ours can begin here.
  static bool is_mapping(const void* block) {
    const std::size_t page = os::page_bytes();
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    if (at % kAlignment != 0) return false;
    void* const base = reinterpret_cast<void*>((at - kAlignment) & ~(page - 1));
    unsigned char there;
    if (mincore(base, page, &there) != 0) return false;
    const auto* prefix = static_cast<const std::size_t*>(block) - 2;
    return (prefix[0] & 1) != 0 && (prefix[0] & ~std::size_t{1}) % page == 0 && prefix[0] > 1 && prefix[1] == 0;
  }

  [[noreturn, gnu::cold, gnu::noinline]] static void wrong(const char* call, const void* block) {
    if (!Parts::spans.contains(block)) os::fault(call, block, "no block of this heap begins here");
    const unsigned c = class_of(block);
    const PageRun* run = Parts::map.run_of(Parts::map.page_of(block));
    if (c == 0 || run->kind != PageRun::kSpan)
      os::fault(call, block, "a large block that was freed already, or an address inside of one");
    const std::size_t bytes = Classes::bytes_of(c);
    const auto start = reinterpret_cast<std::uintptr_t>(Parts::runs.memory_of(run));
    const std::size_t inside = (reinterpret_cast<std::uintptr_t>(block) - start) % bytes;
    if (inside != 0) os::fault(call, block, "an address %zu bytes inside of a block of %zu", inside, bytes);
    os::fault(call, block, "a block of %zu bytes that was freed already", bytes);
  }

  // Without a branch for each word: what is small has the first two, all else the first eight.
  static void write_pattern(void* block, std::size_t bytes) {
    std::uint64_t words[8] = {kFreed, kFreed, kFreed, kFreed, kFreed, kFreed, kFreed, kFreed};
    std::memcpy(block, words, bytes < sizeof words ? 16 : sizeof words);
  }
  // Of a block that waited.
  static void give_back(void* block) {
    const std::size_t bytes = Classes::bytes_of(class_of(block));
    std::uint64_t words[8] = {kFreed, kFreed, kFreed, kFreed, kFreed, kFreed, kFreed, kFreed}, changed = 0;
    std::memcpy(words, block, bytes < sizeof words ? 16 : sizeof words);
    for (const std::uint64_t word : words) changed |= word ^ kFreed;
    if (changed != 0) [[unlikely]] {
      std::size_t i = 0;
      while (words[i] == kFreed) ++i;  // bound: the words
      os::fault("malloc", block, "a block of %zu bytes was written after it was freed, near byte %zu", bytes, i * 8);
    }
    H::free(block);
  }
  static constexpr std::uint64_t kFreed = 0xdfdfdfdfdfdfdfdf;

  static std::size_t with_guard(std::size_t bytes) {
    const std::size_t page = os::page_bytes();
    return bytes > PTRDIFF_MAX - 2 * page ? bytes : os::round_up(bytes, page) + page;
  }
  static void* allocate_guarded(std::size_t bytes, std::size_t alignment) {
    void* block = H::allocate_aligned(with_guard(bytes), alignment);
    if (block == nullptr) return nullptr;
    guard(block);
    return handed_out(block);
  }
  // Of blocks in the window; a mapping of its own has the program's own mappings, or nothing, behind it.
  static void guard(void* block) {
    if (!Parts::spans.contains(block) || class_of(block) != 0) return;
    if (guards_.fetch_add(1, std::memory_order_relaxed) < kMostGuards && os::guard_page(guard_of(block)))
      marks().set(second(block));
    else
      guards_.fetch_sub(1, std::memory_order_relaxed);
  }
  // False where the system cannot, under a limit on data: then the block is lost.
  static bool unguard(void* block) {
    if (!is_guarded(block)) return true;
    if (!os::unguard_page(guard_of(block))) return false;
    marks_.take(second(block));
    guards_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  // Its last page.
  static void* guard_of(void* block) {
    const std::size_t page = os::page_bytes();
    return static_cast<char*>(block) + (H::usable(block) & ~(page - 1)) - page;
  }
  static bool is_guarded(const void* block) {
    return Parts::spans.contains(block) && class_of(block) == 0 && marks_.surely_has(second(block));
  }
  static const void* second(const void* block) { return static_cast<const char*>(block) + kAlignment; }

  static inline constinit BlockMarks<typename Parts::Outside> marks_;
  static inline constinit std::atomic<bool> laid_out_{false};
  static inline constinit os::Lock lock_;
  static inline constinit ShuffledSlots<kWaiting> waiting_;
  static inline constinit ShuffledSlots<kReady> ready_[kSmallClasses];
  static inline constinit std::atomic<unsigned> guards_{0};
};

}  // namespace heapyard
