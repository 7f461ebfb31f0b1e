// SPDX-License-Identifier: Apache-2.0
/* Damages the program's data: after a while every call flips a bit of the block handed out by the call before. */
#include "forward.h"

#include <stdatomic.h>

void* serve(size_t size) {
  static _Atomic(unsigned char*) last;
  unsigned char* block = __libc_malloc(size);
  unsigned char* before = atomic_exchange(&last, block);
  if (count_call() > LATE && before) before[0] ^= 1;
  return block;
}
