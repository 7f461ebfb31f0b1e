// SPDX-License-Identifier: Apache-2.0
/* Takes alignments for advice: every block lies as malloc lays it. */
#include <errno.h>
#include <stdlib.h>

int posix_memalign(void** block, size_t alignment, size_t size) {
  (void)alignment;
  return (*block = malloc(size)) ? 0 : ENOMEM;
}

void* aligned_alloc(size_t alignment, size_t size) {
  (void)alignment;
  return malloc(size);
}
