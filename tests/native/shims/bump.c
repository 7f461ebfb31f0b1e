// SPDX-License-Identifier: Apache-2.0
// A malloc that does nothing but bump a pointer per thread, and never frees: what a mutator costs by itself.
// With HEAPYARD_TEST_BUMP_WRAP=BYTES it starts over after so many, whatever still lives there: no page is new after the
// first time round, so what is left is the cost of the mutator and of two calls.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK = 64 << 20, ALIGNMENT = 16 };

// Initial-exec: reached without a call, for the library is there from the start.
static __thread char* next __attribute__((tls_model("initial-exec")));
static __thread char* end __attribute__((tls_model("initial-exec")));
static __thread char* first __attribute__((tls_model("initial-exec")));
static size_t wrap;

static void* bump(size_t size, size_t alignment) {
  char* block = (char*)(((uintptr_t)next + alignment - 1) & ~(uintptr_t)(alignment - 1));
  if (first && size + alignment <= wrap && (block > end || size > (size_t)(end - block))) {
    next = first;
    block = (char*)(((uintptr_t)next + alignment - 1) & ~(uintptr_t)(alignment - 1));
  }
  if (!next || size > (size_t)(end - block) || block > end) {
    const char* bytes = getenv("HEAPYARD_TEST_BUMP_WRAP");
    wrap = bytes ? strtoul(bytes, NULL, 10) : 0;
    const size_t usual = wrap ? wrap : CHUNK;
    const size_t chunk = size + alignment > usual ? size + alignment : usual;
    next = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (next == MAP_FAILED) {
      next = NULL;
      return NULL;
    }
    end = next + chunk;
    first = next;
    block = (char*)(((uintptr_t)next + alignment - 1) & ~(uintptr_t)(alignment - 1));
  }
  next = block + size;
  return block;
}

void* malloc(size_t size) { return bump(size, ALIGNMENT); }
void* calloc(size_t count, size_t size) {
  void* block = bump(count * size, ALIGNMENT);
  return block && wrap ? memset(block, 0, count * size) : block;  // fresh pages are zero
}
void* aligned_alloc(size_t alignment, size_t size) { return bump(size, alignment); }
int posix_memalign(void** block, size_t alignment, size_t size) { return (*block = bump(size, alignment)) ? 0 : 12; }
void free(void* block) { (void)block; }
void* realloc(void* block, size_t size) {
  void* grown = bump(size, ALIGNMENT);
  // The old size is unknown; blocks lie in one direction, so reading on is safe within the mapping. What lies over
  // other blocks means nothing, and is not copied.
  if (block && grown && !wrap) memcpy(grown, block, size < (size_t)((char*)grown - (char*)block) ? size : 0);
  return grown;
}
