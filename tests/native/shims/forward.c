// SPDX-License-Identifier: Apache-2.0
#include "forward.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

unsigned long count_call(void) {
  static atomic_ulong calls;
  return atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
}

void* malloc(size_t size) { return serve(size); }

void free(void* block) { __libc_free(block); }

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void* block = serve(bytes);
  return block ? memset(block, 0, bytes) : NULL;
}

void* realloc(void* old, size_t size) {
  if (!old) return serve(size);
  if (!size) {
    free(old);
    return NULL;
  }
  void* block = serve(size);
  if (!block) return NULL;
  size_t held = malloc_usable_size(old);
  memcpy(block, old, held < size ? held : size);
  free(old);
  return block;
}

void* memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

void* aligned_alloc(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) || alignment & (alignment - 1) || !alignment) return EINVAL;
  void* found = __libc_memalign(alignment, size);
  if (!found) return ENOMEM;
  *block = found;
  return 0;
}
