// SPDX-License-Identifier: Apache-2.0
/* Stops for ever after a while, without using the processor. */
#include "forward.h"

#include <unistd.h>

void* serve(size_t size) {
  while (count_call() > LATE) pause();
  return __libc_malloc(size);
}
