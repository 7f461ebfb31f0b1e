// SPDX-License-Identifier: Apache-2.0
/* A program at a fixed address that takes the address of malloc: its stub stands for malloc in the whole process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void* direct(size_t size) {
  void* block = malloc(size);
  __asm__ volatile("" ::: "memory");
  return block;
}
__attribute__((noinline)) static void* indirect(void* (*allocate)(size_t), size_t size) {
  void* block = allocate(size);
  __asm__ volatile("" ::: "memory");
  return block;
}

int main(void) {
  char line[100];
  static char input[200], output[200]; /* so that nothing is allocated before the first line */
  void* (*volatile allocate)(size_t) = malloc;
  setvbuf(stdin, input, _IOLBF, sizeof input);
  setvbuf(stdout, output, _IOLBF, sizeof output);
  puts("serving");
  while (fgets(line, sizeof line, stdin)) {
    for (int index = 0; index < 5; ++index) {
      if (!direct(1000000) || !indirect(allocate, 1000000)) return 1;
    }
    char* copy = strdup(line); /* a call of malloc from the C library */
    fputs(copy, stdout);
    free(copy);
  }
  puts("done");
  return 0;
}
