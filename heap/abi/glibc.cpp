// SPDX-License-Identifier: Apache-2.0
// What glibc offers beyond malloc and programs call: trimming, options, and reports of use.
#include <malloc.h>

#include <cstdio>

#include "composition.hpp"

using heapyard::abi::Heap;
using heapyard::abi::kName;

#pragma GCC visibility push(default)
extern "C" {

// 1 when free memory was offered to the system, as glibc says it; what `pad` asks to keep is not kept.
int malloc_trim(std::size_t) noexcept { return Heap::trim() ? 1 : 0; }

// None of glibc's options means anything here; 1, its success, keeps programs that check the answer running.
int mallopt(int, int) noexcept { return 1; }

// arena: bytes mapped; uordblks: in use by the program; fordblks: free, or in a cache; the rest is 0.
struct mallinfo2 mallinfo2() noexcept {
  const auto usage = Heap::usage();
  struct mallinfo2 info{};
  info.arena = usage.mapped;
  info.uordblks = usage.held();
  info.fordblks = usage.mapped - usage.held();
  return info;
}

// The same in 32 bits, where numbers beyond 2 GiB wrap around as glibc's do.
struct mallinfo mallinfo() noexcept {
  const struct mallinfo2 wide = mallinfo2();
  struct mallinfo info{};
  info.arena = static_cast<int>(wide.arena);
  info.fordblks = static_cast<int>(wide.fordblks);
  info.uordblks = static_cast<int>(wide.uordblks);
  return info;
}

int malloc_info(int options, std::FILE* file) noexcept {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  const auto usage = Heap::usage();
  std::fprintf(
      file,
      "<malloc version=\"%s\"><system type=\"current\" size=\"%zu\"/><total type=\"rest\" size=\"%zu\"/></malloc>\n",
      kName, usage.mapped, usage.mapped - usage.held());
  return 0;
}

void malloc_stats() noexcept {
  const auto usage = Heap::usage();
  std::fprintf(stderr, "%s: %zu bytes mapped, %zu in use\n", kName, usage.mapped, usage.held());
}

}  // extern "C"
#pragma GCC visibility pop
