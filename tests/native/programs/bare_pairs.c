// SPDX-License-Identifier: Apache-2.0
/* A bare loop of malloc and free, without a use of the block: prints nanoseconds per call, the least a heap costs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 20000000 };

int main(void) {
  struct timespec start, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  for (long i = 0; i < PAIRS; ++i) free(malloc(64));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  const double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
  printf("%.3f\n", ns / (2.0 * PAIRS));
  return 0;
}
