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

// Zeroed memory, private to the process; null when there is none. `bytes` is rounded up to pages.
inline void* map(std::size_t bytes) {
  const KeepErrno keep;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

inline void unmap(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  munmap(memory, bytes);
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

// Address space alone, at a multiple of `alignment`: it reads as zeros and may not be written before commit(). Not
// charged to the process's memory, whatever the system's policy on overcommit.
inline void* reserve(std::size_t bytes, std::size_t alignment) {
  const KeepErrno keep;
  void* memory = mmap(nullptr, bytes + alignment, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = round_up(start, alignment);
  if (first != start) munmap(memory, first - start);
  munmap(reinterpret_cast<void*>(first + bytes), alignment - (first - start));
  return reinterpret_cast<void*>(first);
}

// Makes whole pages of a reservation writable; false when the system has no memory for them.
inline bool commit(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  return mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0;
}

// The other way round. Empties nothing.
inline void uncommit(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  mprotect(memory, bytes, PROT_READ);
}

// Asks for huge pages where the system gives them on request only; no harm where it never does.
inline void prefer_huge_pages(void* memory, std::size_t bytes) {
  const KeepErrno keep;
  madvise(memory, bytes, MADV_HUGEPAGE);
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

}  // namespace heapyard::os
