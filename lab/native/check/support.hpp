// SPDX-License-Identifier: Apache-2.0
// What several cases need: contents that can be verified, memory of this process, threads, time.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "base/mapping.hpp"
#include "base/random.hpp"
#include "case.hpp"

namespace heapyard::check {

// Hides a value from the optimiser, so that calls with absurd sizes are made and not warned of.
template <class T>
T opaque(T value) {
  volatile T copy = value;
  return copy;
}

inline bool aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

// Every byte follows from the block's tag and its place in the block, so a shifted or mixed-up block is seen.
inline void fill(void* block, std::size_t bytes, std::uint64_t tag) {
  auto* at = static_cast<unsigned char*>(block);
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<unsigned char>(tag + i * 7 + (i >> 8));
}
// The first byte that is wrong; `bytes` if none is.
inline std::size_t first_wrong(const void* block, std::size_t bytes, std::uint64_t tag) {
  const auto* at = static_cast<const unsigned char*>(block);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (at[i] != static_cast<unsigned char>(tag + i * 7 + (i >> 8))) return i;
  }
  return bytes;
}
inline bool intact(const void* block, std::size_t bytes, std::uint64_t tag) {
  return first_wrong(block, bytes, tag) == bytes;
}

// Pages resident in this process, in bytes.
inline std::size_t resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  long size = 0, pages = 0;
  if (!file) return 0;
  if (std::fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
  std::fclose(file);
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Of /proc/self/status, in bytes; the field with its colon.
inline std::size_t status_field(const char* field) {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  char line[256];
  unsigned long kib = 0;
  const std::size_t length = std::strlen(field);
  while (file && std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, field, length) == 0) kib = std::strtoul(line + length, nullptr, 10);
  }
  if (file) std::fclose(file);
  return kib * 1024;
}

// Bytes of address space, or of private writable memory, that this process has.
inline std::size_t used_of(int resource) { return status_field(resource == RLIMIT_AS ? "VmSize:" : "VmData:"); }

// Memory that is not the heap's under test.
template <class T>
T* map_array(std::size_t count) {
  void* const memory = map_sparse(count * sizeof(T));
  if (memory == nullptr) std::abort();
  return static_cast<T*>(memory);
}

inline constexpr double kMiB = 1 << 20;  // bytes

// Runs body(index) on so many threads and waits for all. Their number is below kMostThreads.
inline constexpr std::size_t kMostThreads = 256;
template <class Body>
void on_threads(std::size_t count, Body body) {
  struct Start {
    Body* body;
    std::size_t index;
  };
  static Start starts[kMostThreads];
  static pthread_t threads[kMostThreads];
  for (std::size_t i = 0; i < count; ++i) {
    starts[i] = {&body, i};
    const auto enter = [](void* start) -> void* {
      (*static_cast<Start*>(start)->body)(static_cast<Start*>(start)->index);
      return nullptr;
    };
    if (pthread_create(&threads[i], nullptr, enter, &starts[i]) != 0) std::abort();
  }
  for (std::size_t i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
}

}  // namespace heapyard::check
