// SPDX-License-Identifier: Apache-2.0
/* child_big MIB: a small parent that waits for a child with MIB of touched memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 20;
  pid_t child = fork();
  if (child == 0) {
    char* block = malloc(bytes);
    if (!block) _exit(1);
    for (size_t i = 0; i < bytes; i += 512) ((volatile char*)block)[i] = 1;
    _exit(0);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status) return 1;
  puts("done");
}
