// SPDX-License-Identifier: Apache-2.0
#include "work.h"

void work(unsigned long units) {
  unsigned long value = units;
  for (unsigned long i = 0; i < units; ++i) {
    value = value * 6364136223846793005UL + 1442695040888963407UL;
    __asm__ volatile("" : "+r"(value)); /* the compiler must not fold the chain */
  }
}
