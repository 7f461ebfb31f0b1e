// SPDX-License-Identifier: Apache-2.0
/* Takes 5 % longer in total under a program that does UNITS_PER_PAIR of work for every malloc. */
#include "forward.h"
#include "work.h"

void* serve(size_t size) {
  work(SLOW_UNITS);
  return __libc_malloc(size);
}
