// SPDX-License-Identifier: Apache-2.0
// Fills the memory that a limit leaves, frees it all, and fills it again, with other sizes too: tells how many
// mebibytes it got each time.
//
// fills LEAST MOST MIB [charged]: blocks of LEAST to MOST bytes, sizes spread evenly over their logarithm; at most MIB
// mebibytes. With `charged` each block is written wholly, and each mebibyte told at once: a control group kills at its
// limit.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int charged;
static uint64_t random_state;
static double uniform(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

// Blocks form a list through their first word; the second keeps their size.
static size_t fill(double least, double most, size_t bytes) {
  void** list = NULL;
  size_t got = 0;
  random_state = 7;
  while (got < bytes) {
    const size_t size = (size_t)exp(log(least) + uniform() * (log(most) - log(least)));
    void** block = malloc(size);
    if (block == NULL) break;
    memset(block, 0x5a, charged || size < 64 ? size : 64);
    block[0] = list;
    block[1] = (void*)size;
    list = block;
    got += size;
    if (charged && got >> 20 != (got - size) >> 20) {
      printf("%zu ", got >> 20);
      fflush(stdout);
    }
  }
  while (list != NULL) {
    void** next = list[0];
    for (size_t at = 16; at < (size_t)list[1] && at < 64; ++at) {
      if (((unsigned char*)list)[at] != 0x5a) {
        puts("a block was overwritten");
        exit(1);
      }
    }
    free(list);
    list = next;
  }
  return got >> 20;
}

int main(int count, char** words) {
  if (count != 4 && count != 5) return 2;
  charged = count == 5;
  const double least = atof(words[1]), most = atof(words[2]);
  const size_t bytes = (size_t)atoll(words[3]) << 20;
  const size_t first = fill(least, most, bytes), again = fill(least, most, bytes);
  const size_t large = fill(4e6, 8e6, bytes), small = fill(16, 200, bytes), last = fill(least, most, bytes);
  printf("%zu %zu %zu %zu %zu\n", first, again, large, small, last);
  return 0;
}
