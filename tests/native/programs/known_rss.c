// SPDX-License-Identifier: Apache-2.0
/* known_rss MIB [MILLISECONDS]: holds MIB of touched heap blocks of 64 KiB each, for so long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 64 << 10, PER_MIB = (1 << 20) / BLOCK };

int main(int argc, char** argv) {
  unsigned long blocks = (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * PER_MIB;
  long milliseconds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
  for (unsigned long i = 0; i < blocks; ++i) {
    char* block = malloc(BLOCK);
    if (!block) {
      fprintf(stderr, "known_rss: out of memory\n");
      return 1;
    }
    memset(block, 1, BLOCK); /* kept until the process ends: the peak is the sum */
  }
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
  printf("%lu blocks\n", blocks);
}
