// SPDX-License-Identifier: Apache-2.0
/* Takes 20 % more memory: every block is a fifth longer than asked for, and the surplus is touched. */
#include "forward.h"

#include <string.h>

void* serve(size_t size) {
  size_t surplus = size / 5;
  char* block = __libc_malloc(size + surplus);
  return block ? (memset(block + size, 1, surplus), block) : NULL;
}
