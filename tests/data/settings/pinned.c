// SPDX-License-Identifier: Apache-2.0
// A program whose peak memory depends on glibc's mmap_threshold by construction. A freed block of 16 MiB moves the
// threshold up, so that the blocks of 1 MiB after it come from the heap, where a small block above each keeps what is
// freed. Then blocks of 40 MiB come on top. With a fixed threshold the former are mappings, and go back before the
// latter come.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 8, MIB = 1 << 20 };

static char* volatile blocks[BLOCKS];
static void* volatile pins[BLOCKS];

static void touch(char* block, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 4096) block[at] = 1;
}

int main(void) {
  char* volatile first = malloc(16 * MIB);
  free(first);
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(MIB);
    touch(blocks[i], MIB);
    pins[i] = malloc(64);
  }
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  char* volatile last = malloc(40 * MIB);
  touch(last, 8 * MIB);
  free(last);
  puts("done");
  return 0;
}
