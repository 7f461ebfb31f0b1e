// SPDX-License-Identifier: Apache-2.0
/* The smallest complete malloc: it never reuses memory. Tests preload it as a user's own library.
 * WITHOUT_CALLOC leaves calloc to someone else; EXIT_AT_LOAD ends the program before main. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RESERVED_SHIFT = 36, HEADER = 16 };

static _Atomic(uintptr_t) next;

static uintptr_t reserve(void) {
  void* fresh = mmap(NULL, (size_t)1 << RESERVED_SHIFT, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) _exit(99);
  uintptr_t unset = 0;
  if (!atomic_compare_exchange_strong(&next, &unset, (uintptr_t)fresh)) munmap(fresh, (size_t)1 << RESERVED_SHIFT);
  return atomic_load(&next);
}

void* memalign(size_t alignment, size_t size) {
  uintptr_t old = atomic_load(&next), start;
  if (alignment < HEADER) alignment = HEADER;
  if (!old) old = reserve();
  do start = (old + HEADER + alignment - 1) & ~(uintptr_t)(alignment - 1);
  while (!atomic_compare_exchange_weak(&next, &old, start + ((size + 15) & ~(size_t)15)));
  ((size_t*)start)[-1] = size;
  return (void*)start;
}

void* malloc(size_t size) { return memalign(HEADER, size); }
void free(void* block) { (void)block; }
#ifndef WITHOUT_CALLOC
void* calloc(size_t count, size_t size) { return malloc(count * size); }
#endif
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
size_t malloc_usable_size(void* block) { return block ? ((size_t*)block)[-1] : 0; }

int posix_memalign(void** result, size_t alignment, size_t size) {
  *result = memalign(alignment, size);
  return 0;
}

void* realloc(void* block, size_t size) {
  void* fresh = malloc(size);
  size_t old = malloc_usable_size(block);
  if (block) memcpy(fresh, block, old < size ? old : size);
  return fresh;
}

#ifdef EXIT_AT_LOAD
__attribute__((constructor)) static void leave(void) { _exit(3); }
#endif
