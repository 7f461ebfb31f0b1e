// SPDX-License-Identifier: Apache-2.0
/* naps MILLISECONDS: sleeps and ends; its wall time is that and hardly more. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  long milliseconds = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  free(malloc(1));
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
  puts("done");
}
