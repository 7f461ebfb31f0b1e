// SPDX-License-Identifier: Apache-2.0
// A target of libFuzzer: one heap, beside the malloc that serves the fuzzer, played and judged as fuzz_heap does.
//
// Idea: the player and the heap are linked with their names of malloc's family changed (CMakeLists.txt), so the judge
// is the same code and the fuzzer's own blocks lie elsewhere. Each input begins with what the heap kept of those
// before: its blocks are freed, and its free memory is given back. With HEAPYARD_OPERATIONS=FILE each input is besides
// written to that file, as `heapyard fuzz --replay` reads it.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <bitset>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "decode.hpp"
#include "../finding.hpp"
#include "../player.hpp"

extern "C" {
void* heap_aligned_alloc(std::size_t, std::size_t);
int heap_posix_memalign(void**, std::size_t, std::size_t);
void* heap_memalign(std::size_t, std::size_t);
void* heap_valloc(std::size_t);
void* heap_pvalloc(std::size_t);
void* heap_reallocarray(void*, std::size_t, std::size_t);
std::size_t heap_malloc_usable_size(void*);
void heap_free_sized(void*, std::size_t);
void heap_free_aligned_sized(void*, std::size_t, std::size_t);
int heap_malloc_trim(std::size_t);
struct mallinfo2 heap_mallinfo2();
}

namespace heapyard::fuzz {

Progress progress[kMostThreads];

// libFuzzer keeps the input of a process that aborts.
void found(unsigned, const char* kind, const char* format, ...) {
  std::fprintf(stderr, "%s: ", kind);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::abort();
}

void become_child() {}

namespace {

Yard yard;
Block blocks[kSlots];
Player player;

bool begin() {
  yard.own = {heap_aligned_alloc,
              heap_posix_memalign,
              heap_memalign,
              heap_valloc,
              heap_pvalloc,
              heap_reallocarray,
              heap_malloc_usable_size,
              heap_free_sized,
              heap_free_aligned_sized,
              heap_malloc_trim,
              [] { heap_mallinfo2(); },
              true};
  yard.pages.prepare();
  player.begin(yard, 0, blocks);
  yard.live.begin();
  return true;
}

void write_down(std::span<const std::uint8_t> bytes) {
  static const char* const path = std::getenv("HEAPYARD_OPERATIONS");
  if (path == nullptr) return;
  static const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  Text text;
  std::bitset<kSlots> used;
  for (std::size_t at = 0; at + kOperationBytes <= bytes.size(); at += kOperationBytes) {
    const Operation operation = decode(bytes.subspan(at).first<kOperationBytes>());
    write_operation(text, operation);
    used[operation.slot] = operation.call != Call::kRelease;
  }
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    if (used[slot]) write_operation(text, {0, 0, static_cast<std::uint16_t>(slot), 0, Call::kRelease});
  }
  write_operation(text, {0, 0, 0, 0, Call::kTrim});
  if (!text.write_to(file)) std::abort();
}

}  // namespace
}  // namespace heapyard::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapyard::fuzz;
  static const bool ready = begin();
  if (!ready) return -1;
  const std::span bytes(data, size);
  for (std::size_t at = 0; at + kOperationBytes <= size; at += kOperationBytes)
    player.play(decode(bytes.subspan(at).first<kOperationBytes>()));
  player.release_all();
  heap_malloc_trim(0);
  write_down(bytes);
  return 0;
}
