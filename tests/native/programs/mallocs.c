// SPDX-License-Identifier: Apache-2.0
/* mallocs PAIRS UNITS: so many pairs of malloc and free, UNITS of work for each, and a checksum of what the blocks
 * held.
 *
 * UNITS defaults to UNITS_PER_PAIR, of which libslow adds a twentieth: `mallocs PAIRS UNITS+SLOW_UNITS` does the same
 * work.
 */
#include "work.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64, SMALLEST = 32, SIZES = 480 };

int main(int argc, char** argv) {
  unsigned long pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000;
  unsigned long units = argc > 2 ? strtoul(argv[2], NULL, 10) : UNITS_PER_PAIR;
  unsigned char* slots[SLOTS] = {0};
  size_t sizes[SLOTS] = {0};
  uint64_t random = 1, sum = 0;

  for (unsigned long i = 0; i < pairs + SLOTS; ++i) {
    unsigned slot = i % SLOTS;
    for (size_t k = 0; k < sizes[slot]; ++k) sum = sum * 31 + slots[slot][k];
    free(slots[slot]);
    slots[slot] = NULL;
    sizes[slot] = 0;
    if (i >= pairs) continue;
    random = random * 6364136223846793005U + 1442695040888963407U;
    sizes[slot] = SMALLEST + (random >> 33) % SIZES;
    slots[slot] = malloc(sizes[slot]);
    if (!slots[slot]) {
      fprintf(stderr, "mallocs: out of memory\n");
      return 1;
    }
    memset(slots[slot], (int)(random >> 56), sizes[slot]);
    work(units);
  }
  printf("%016llx\n", (unsigned long long)sum);
}
