// SPDX-License-Identifier: Apache-2.0
/* drifts: launch n does 1 + n/50 times the work of the first; launches are counted as counter.h says. */
#include "counter.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST = 20000000 };

int main(void) {
  free(malloc(1));
  work(FIRST + FIRST / 50 * (unsigned long)next_count());
  puts("done");
}
