// SPDX-License-Identifier: Apache-2.0
// Pages from the operating system.
//
// Idea: the only calls that map, unmap or empty memory. None changes errno, for free() must not (POSIX 2024).
// Cost: one system call each. Threads: any; signal handlers: any. Errors: null or false, never an abort.
#pragma once

#include <sys/auxv.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace heapyard::os {

// Restores errno when it goes out of scope.
class KeepErrno {
 public:
  KeepErrno() = default;
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;
  ~KeepErrno() { errno = saved_; }

 private:
  int saved_ = errno;
};

constexpr std::size_t round_up(std::size_t value, std::size_t power_of_two) {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}

// 4, 16 or 64 KiB: known at run time only, on AArch64 for one.
inline std::size_t page_bytes() { return getauxval(AT_PAGESZ); }

// Zeroed memory as near behind `wish` as the system likes; null when there is none.
inline void* map_near(void* wish, std::size_t bytes) {
  const KeepErrno keep;
  void* memory = mmap(wish, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Zeroed memory, private to the process; null when there is none. `bytes` is rounded up to pages.
inline void* map(std::size_t bytes) { return map_near(nullptr, bytes); }

// False when the system cannot keep one more mapping apart; then nothing changed.
inline bool unmap(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  return munmap(memory, bytes) == 0;
}

// The same at a multiple of `alignment`, a power of two of at least a page. Up to three system calls.
inline void* map_aligned(std::size_t bytes, std::size_t alignment) {
  void* memory = map(bytes);
  if (memory == nullptr || (reinterpret_cast<std::uintptr_t>(memory) & (alignment - 1)) == 0) return memory;
  unmap(memory, bytes);
  memory = map(bytes + alignment);
  if (memory == nullptr) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = round_up(start, alignment);
  if (first != start) unmap(memory, first - start);
  if (first - start != alignment) unmap(reinterpret_cast<void*>(first + bytes), alignment - (first - start));
  return reinterpret_cast<void*>(first);
}

enum class Placed { done, occupied, refused };

// Zeroed memory, private to the process, at a place where nothing lies. (A kernel before 4.17 takes the place for a
// wish; then nothing is ever placed.)
inline Placed place(void* at, std::size_t bytes) {
  const KeepErrno keep;
  void* memory =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory == at) return Placed::done;
  if (memory == MAP_FAILED) return errno == EEXIST ? Placed::occupied : Placed::refused;
  munmap(memory, bytes);
  return Placed::occupied;
}

// Address space that nobody may touch, at a multiple of `alignment`; null when there is none.
inline void* hold(std::size_t bytes, std::size_t alignment) {
  const KeepErrno keep;
  void* memory = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = round_up(start, alignment);
  if (first != start) munmap(memory, first - start);
  munmap(reinterpret_cast<void*>(first + bytes), alignment - (first - start));
  return reinterpret_cast<void*>(first);
}

// Zeroed memory in the midst of what is held; `back`: nothing but held again.
inline bool place_in_held(void* at, std::size_t bytes, bool back = false) {
  const KeepErrno keep;
  const int access = back ? PROT_NONE : PROT_READ | PROT_WRITE;
  return mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at;
}

// Whether the page at `page` is in memory.
inline bool filled(void* page) {
  const KeepErrno keep;
  unsigned char resident = 0;
  return mincore(page, 1, &resident) == 0 && (resident & 1) != 0;
}

// Asks for huge pages where the system gives them on request only; no harm where it never does.
inline void prefer_huge_pages(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  madvise(memory, bytes, MADV_HUGEPAGE);
}

// No huge pages here, though the system gives them unasked; no harm where it does not.
inline void refuse_huge_pages(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
}

// The whole pages within [memory, memory + bytes) go back to the system; they read as zeros when touched again.
inline bool decommit(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  const std::size_t page = page_bytes();
  const std::uintptr_t first = round_up(reinterpret_cast<std::uintptr_t>(memory), page);
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) & ~(page - 1);
  if (first >= end) return true;
  return madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) == 0;
}

// Makes a mapping of `bytes` one of `larger`, here or elsewhere. Its pages move; nothing is copied. Null when it cannot
// be done; then nothing has changed.
inline void* remap(void* memory, std::size_t bytes, std::size_t larger) {
  const KeepErrno keep;
  void* moved = mremap(memory, bytes, larger, MREMAP_MAYMOVE);
  return moved == MAP_FAILED ? nullptr : moved;
}

// Moves the memory of whole pages to others that are mapped; what was there is lost, and zeros are left behind. False
// when the system cannot (before Linux 5.7); then nothing has changed.
inline bool move_pages(void* memory, std::size_t bytes, void* target) {
  const KeepErrno keep;
  constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP, which older headers do not know
  return mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | kDontUnmap, target) == target;
}

enum class Grown { here, elsewhere_only, never };

// The same, only where it is; else whether it could move.
inline Grown grow_mapping(void* memory, std::size_t bytes, std::size_t larger) {
  const KeepErrno keep;
  if (mremap(memory, bytes, larger, 0) != MAP_FAILED) return Grown::here;
  return errno == ENOMEM ? Grown::elsewhere_only : Grown::never;  // EFAULT: it is several mappings to the system
}

// The same, onto `target`, a mapping of `larger` bytes.
inline bool move_mapping(void* memory, std::size_t bytes, void* target, std::size_t larger) {
  const KeepErrno keep;
  return mremap(memory, bytes, larger, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target;
}

}  // namespace heapyard::os
