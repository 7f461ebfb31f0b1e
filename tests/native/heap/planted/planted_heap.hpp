// SPDX-License-Identifier: Apache-2.0
// A heap with one fault (fault.hpp) in front of a heap that has none.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fault.hpp"

namespace heapyard::test {

template <class H>
class PlantedHeap {
 public:
  static constexpr bool kSampled = H::kSampled;

  static void begin() {
    plant();
    H::begin();
    if (planted == Fault::kForkRewinds) pthread_atfork(nullptr, nullptr, [] { rewinds_ = true; });
    if (planted == Fault::kThreadEnd) has_key_ = pthread_key_create(&key_, end_thread) == 0;
  }

  static void* allocate(std::size_t bytes) {
    switch (planted) {
      case Fault::kWraps:
        if (bytes > PTRDIFF_MAX) return H::allocate(bytes + 4096);
        break;
      case Fault::kRounding:
        if (bytes % 16 == 1 && bytes > 16) return H::allocate(bytes - 1);
        break;
      case Fault::kNoErrno: {
        const int before = errno;
        void* const block = H::allocate(bytes);
        if (block == nullptr) errno = before;
        return block;
      }
      case Fault::kForkLock:
        if (++calls_ % 4 == 0) {
          while (locked_.test_and_set(std::memory_order_acquire)) {
          }
          void* const block = H::allocate(bytes);
          locked_.clear(std::memory_order_release);
          return block;
        }
        break;
      case Fault::kForkRewinds:
        if (bytes <= kSmall && rewinds_ && last_ != nullptr) {
          rewinds_ = false;
          return last_;
        }
        return remembered(H::allocate(bytes <= kSmall ? kSmall : bytes));
      case Fault::kRacyCache:
        if (void* const block = shelf_of(bytes)) {
          shelf_of(bytes) = nullptr;
          return block;
        }
        break;
      case Fault::kUntaggedStack:
        if (void* const block = bytes <= kSmall ? pop() : nullptr) return block;
        return H::allocate(bytes <= kSmall ? kSmall : bytes);
      case Fault::kLostRemote:
        return owned(H::allocate(bytes));
      case Fault::kMissedFailure:
        if (void* const block = H::allocate(bytes); block != nullptr || bytes > sizeof spare_) return block;
        return spare_;
      case Fault::kSticky: {
        if (refused_ && bytes < kLarge) return refuse();
        void* const block = H::allocate(bytes);
        if (block == nullptr && bytes < kLarge) refused_ = true;
        return block;
      }
      case Fault::kInterrupted:
        if (bytes >= kLarge / 8) {
          const timespec some{0, 50'000};
          if (nanosleep(&some, nullptr) != 0) return refuse();
        }
        break;
      case Fault::kTrimsLive:
        if (bytes >= kLarge && bytes <= PTRDIFF_MAX) return remembered(H::allocate(bytes));
        break;
      default:
        break;
    }
    return H::allocate(bytes);
  }

  static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    if (planted == Fault::kCrooked && alignment > 64 && ++calls_ % 64 == 0) return H::allocate(bytes);
    return H::allocate_aligned(bytes, alignment);
  }

  static void* allocate_zeroed(std::size_t bytes) {
    if (planted == Fault::kStale && bytes <= kSmall) return H::allocate(bytes);
    if (planted == Fault::kStaleLarge && bytes >= kLarge / 8 && bytes <= PTRDIFF_MAX) return H::allocate(bytes);
    return H::allocate_zeroed(bytes);
  }

  static void free(void* block) {
    if (block == nullptr) return;
    switch (planted) {
      case Fault::kTwice:
        if (H::usable(block) <= kSmall && ++calls_ % 1024 == 0) H::free(block);
        break;
      case Fault::kFreeErrno:
        if (++calls_ % 256 == 0) errno = EINVAL;
        break;
      case Fault::kForkRewinds:
      case Fault::kTrimsLive:
        if (block == last_) last_ = nullptr;
        break;
      case Fault::kThreadEnd:
        if (has_key_ && H::usable(block) <= kSmall && ++calls_ % 16 == 0) {
          void* const kept = pthread_getspecific(key_);
          pthread_setspecific(key_, block);
          return H::free(kept);
        }
        break;
      case Fault::kRacyCache:
        if (const std::size_t bytes = H::usable(block); bytes <= kSmall && shelf_of(bytes) == nullptr) {
          shelf_of(bytes) = block;
          return;
        }
        break;
      case Fault::kUntaggedStack:
        if (const std::size_t bytes = H::usable(block); bytes >= kSmall && bytes < 2 * kSmall) return push(block);
        break;
      case Fault::kLostRemote:
        if (is_others(block)) return;
        break;
      case Fault::kMissedFailure:
        if (block == spare_) return;
        break;
      default:
        break;
    }
    H::free(block);
  }

  static bool resize(void* block, std::size_t bytes) {
    if (block == spare_) return bytes <= sizeof spare_;
    const std::size_t now = H::usable(block);
    if (planted == Fault::kGrows && now <= kSmall && bytes > now && bytes <= now + 16) return true;
    if (planted == Fault::kGrowsLarge && now >= kLarge / 8 && bytes > now && bytes <= now + now / 4) return true;
    return H::resize(block, bytes);
  }

  static void* move(void* block, std::size_t bytes) {
    if (block == spare_) return nullptr;
    const std::size_t before = H::usable(block);
    void* const moved = H::move(block, bytes);
    if (planted == Fault::kHalfMoved && moved != nullptr && bytes > before)
      std::memset(static_cast<char*>(moved) + before - before / 8, 0, before / 8);
    return moved;
  }

  static std::size_t usable(const void* block) {
    if (block == spare_) return sizeof spare_;
    return H::usable(block) + (planted == Fault::kUsable ? 8 : 0);
  }

  static bool trim() {
    if (planted == Fault::kTrimsLive && last_ != nullptr) {
      const auto page = (reinterpret_cast<std::uintptr_t>(last_) + 4095) & ~std::uintptr_t{4095};
      madvise(reinterpret_cast<void*>(page), kLarge / 2, MADV_DONTNEED);
    }
    return H::trim();
  }
  static auto usage() { return H::usage(); }

 private:
  static constexpr std::size_t kSmall = 256, kLarge = std::size_t{256} << 10, kOwners = 1 << 16;

  static void* refuse() {
    errno = ENOMEM;
    return nullptr;
  }

  static void* remembered(void* block) {
    last_ = block;
    return block;
  }

  static void end_thread(void* kept) {
    H::free(kept);
    H::free(kept);
  }

  // One place for each number of sixteen bytes.
  static void* volatile& shelf_of(std::size_t bytes) {
    static void* volatile shelves[kSmall / 16 + 2];
    return shelves[bytes <= kSmall ? (bytes + 15) / 16 : kSmall / 16 + 1];
  }

  static void push(void* block) {
    void* top = top_.load();
    do {
      std::memcpy(block, &top, sizeof top);
    } while (!top_.compare_exchange_weak(top, block));
  }
  static void* pop() {
    void* top = top_.load();
    void* next;
    do {
      if (top == nullptr) return nullptr;
      std::memcpy(&next, top, sizeof next);
    } while (!top_.compare_exchange_weak(top, next));
    return top;
  }

  static std::atomic<std::uintptr_t>& owner_of(const void* block) {
    static std::atomic<std::uintptr_t> owners[kOwners];
    return owners[reinterpret_cast<std::uintptr_t>(block) / 16 % kOwners];
  }
  static void* owned(void* block) {
    owner_of(block).store(pthread_self(), std::memory_order_relaxed);
    return block;
  }
  static bool is_others(const void* block) { return owner_of(block).load(std::memory_order_relaxed) != pthread_self(); }

  static inline constinit std::atomic<unsigned> calls_{0};
  static inline std::atomic_flag locked_;
  static inline constinit std::atomic<void*> top_{nullptr};
  static inline void* volatile last_ = nullptr;
  static inline volatile bool rewinds_ = false, refused_ = false;
  static inline pthread_key_t key_;
  static inline bool has_key_ = false;
  alignas(16) static inline unsigned char spare_[4096];
};

}  // namespace heapyard::test
