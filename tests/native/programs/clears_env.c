// SPDX-License-Identifier: Apache-2.0
/* clears_env PROGRAM ARGUMENT...: becomes PROGRAM with an empty environment, so that no preload reaches it. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char* empty[] = {NULL};
  if (argc > 1) execve(argv[1], argv + 1, empty);
  perror("clears_env");
  return 1;
}
